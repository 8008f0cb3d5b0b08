// SPDX-License-Identifier: Apache-2.0
// Writes the checkpoints of a made-up training run, for demos, tests and benchmarks.
#include "make_run/run_writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using wdelta::make_run::Movement;
using wdelta::make_run::RunOptions;
using wdelta::make_run::RunWriter;

constexpr const char* k_usage =
    "usage: make-run OUTDIR [--steps N] [--first K] [--size BYTES|512M|6G] [--shards S] [--single]\n"
    "                [--learning-rate X] [--seed N] [--threads N] [--quiet]\n"
    "Writes OUTDIR/step-0001 ... : consecutive checkpoints of a training run, in bf16 safetensors with side files.\n";

struct Arguments {
  RunOptions run;
  std::uint64_t step_count = 5;
  std::uint64_t first_step = 1;
  bool quiet = false;
  bool help = false;
};

struct UsageError : std::invalid_argument {
  using invalid_argument::invalid_argument;
};

std::uint64_t parse_number(const std::string& name, const std::string& text) {
  std::size_t used = 0;
  std::uint64_t value = 0;
  try {
    if (!text.empty() && text[0] >= '0' && text[0] <= '9') value = std::stoull(text, &used);
  } catch (const std::out_of_range&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) throw UsageError(name + ": not a number: '" + text + "'");
  return value;
}

std::uint64_t parse_positive(const std::string& name, const std::string& text, std::uint64_t most) {
  const std::uint64_t value = parse_number(name, text);
  if (value == 0 || value > most) throw UsageError(name + " must be from 1 to " + std::to_string(most));
  return value;
}

std::uint64_t parse_size(const std::string& name, std::string text) {
  int shift = 0;
  switch (text.empty() ? '\0' : text.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    case 'T':
      shift = 40;
      break;
    default:
      break;
  }
  if (shift != 0) text.pop_back();
  return parse_positive(name, text, (std::uint64_t{1} << 50) >> shift) << shift;
}

double parse_rate(const std::string& name, const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || !(value >= 0 && value <= 1)) {
    throw UsageError(name + " must be a number from 0 to 1");
  }
  return value;
}

Arguments parse(int count, char** words) {
  constexpr std::uint64_t k_most_steps = 1'000'000;
  Arguments arguments;
  arguments.run.thread_count = std::max(1u, std::thread::hardware_concurrency());
  std::optional<std::string> directory;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count) throw UsageError(word + " needs a value");
      return words[++i];
    };
    if (word == "--steps") {
      arguments.step_count = parse_positive(word, value(), k_most_steps);
    } else if (word == "--first") {
      arguments.first_step = parse_positive(word, value(), k_most_steps);
    } else if (word == "--size") {
      arguments.run.size_bytes = parse_size(word, value());
    } else if (word == "--shards") {
      arguments.run.shard_count = parse_positive(word, value(), 99999);
    } else if (word == "--single") {
      arguments.run.shard_count = 1;
    } else if (word == "--learning-rate") {
      arguments.run.training.learning_rate = parse_rate(word, value());
    } else if (word == "--seed") {
      arguments.run.training.seed = parse_number(word, value());
    } else if (word == "--threads") {
      arguments.run.thread_count = static_cast<unsigned>(parse_positive(word, value(), 256));
    } else if (word == "--quiet") {
      arguments.quiet = true;
    } else if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else if (word.starts_with("-")) {
      throw UsageError("unknown option " + word);
    } else if (directory) {
      throw UsageError("more than one directory: " + word);
    } else {
      directory = word;
    }
  }
  if (!directory && !arguments.help) throw UsageError("no directory given");
  arguments.run.directory = directory.value_or("");
  return arguments;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void run(const Arguments& arguments) {
  const RunWriter writer(arguments.run);
  const double megabytes = static_cast<double>(writer.weight_bytes()) / 1e6;
  if (!arguments.quiet) {
    std::printf("hidden %llu, layers %llu, vocabulary %llu: %.1f MB of bf16 in %zu %s\n",
                static_cast<unsigned long long>(writer.shape().hidden),
                static_cast<unsigned long long>(writer.shape().layers),
                static_cast<unsigned long long>(writer.shape().vocabulary), megabytes, writer.shard_count(),
                writer.shard_count() == 1 ? "file" : "shards");
  }
  for (std::uint64_t step = arguments.first_step; step - arguments.first_step < arguments.step_count; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const Movement movement = writer.write(step);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (arguments.quiet) continue;
    std::printf("%s: %.2f %% of the elements changed since the step before, %.0f %% of them by one (%.0f MB/s)\n",
                writer.step_directory(step).c_str(), percent(movement.changed, movement.elements),
                percent(movement.neighbours, movement.changed), megabytes / elapsed.count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments = parse(count, words);
    if (arguments.help) {
      std::fputs(k_usage, stdout);
    } else {
      run(arguments);
    }
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "make-run: %s\n%s", error.what(), k_usage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make-run: %s\n", error.what());
    return 1;
  }
}
