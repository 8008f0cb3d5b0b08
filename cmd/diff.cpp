// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"
#include "base/printable.hpp"
#include "context.hpp"
#include "delta/diff_checkpoint.hpp"
#include "delta/file_identity_json.hpp"
#include "format.hpp"
#include "output_path.hpp"
#include "user/exit_codes.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct DiffOptions {
  std::string base;
  std::string next;
  std::string output;
  std::string encoding = "auto";
  bool summary = false;
  bool exit_code = false;
};

const char* const k_mode_names[] = {"same", "sparse", "dense", "whole", "classed", "afresh"};
const char* const k_kind_names[] = {"same", "changed", "added", "removed"};

const char* name_of(BlockMode mode) { return k_mode_names[static_cast<int>(mode)]; }

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : "×") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

Json to_json(const TensorChange& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"elements", tensor.element_count},
          {"changed", tensor.change_count},
          {"largest_step", tensor.largest_step},
          {"encoded_bytes", tensor.encoded_bytes},
          {"encoding", name_of(tensor.main_mode())},
          {"afresh", tensor.afresh}};
}

Json to_json(const PlaceChange& place) {
  Json json = {
      {"path", place.path}, {"change", k_kind_names[static_cast<int>(place.kind)]}, {"size", place.size_bytes}};
  if (place.kind != PlaceChange::Kind::removed) json["digest"] = place.digest.hex();
  if (!place.tensors) return json;
  json["base"] = Json::array();
  for (const FileIdentity& file : place.tensors->description.base) json["base"].push_back(wdelta::to_json(file));
  json["elements"] = place.tensors->description.element_count;
  json["changed"] = place.tensors->description.change_count;
  json["encoded_bytes"] = place.tensors->encoded_bytes;
  json["header_changed"] = place.tensors->front_changed;
  json["removed_tensors"] = place.tensors->removed_tensors;
  json["tensors"] = Json::array();
  for (const TensorChange& tensor : place.tensors->tensors) json["tensors"].push_back(to_json(tensor));
  return json;
}

void print_tensors(const FileChange& file) {
  using enum Table::Align;
  Table table({{"tensor", left},
               {"dtype", left},
               {"shape", left},
               {"elements", right},
               {"changed", right},
               {"density", right},
               {"largest step", right},
               {"encoded", right},
               {"as", left}});
  for (const TensorChange& tensor : file.tensors) {
    table.add({tensor.name, tensor.dtype, shape_text(tensor.shape), count_text(tensor.element_count),
               count_text(tensor.change_count), share_text(tensor.change_count, tensor.element_count),
               count_text(tensor.largest_step), size_text(tensor.encoded_bytes),
               tensor.afresh ? "afresh (no base)" : name_of(tensor.main_mode())});
  }
  fmt::print("{}", table.text());
  for (const std::string& name : file.removed_tensors) fmt::print("removed: {}\n", printable(name));
  if (file.front_changed) fmt::print("the header differs\n");
}

void print_places(const CheckpointChange& change, bool summary) {
  for (const PlaceChange& place : change.places) {
    if (change.places.size() > 1 || !place.tensors) {
      fmt::print("{:<8} {}  {}\n", k_kind_names[static_cast<int>(place.kind)], printable(place.path),
                 size_text(place.size_bytes));
    }
    if (!summary && place.tensors && place.kind != PlaceChange::Kind::same) {
      print_tensors(*place.tensors);
      fmt::print("\n");
    }
  }
}

struct Totals {
  std::uint64_t elements = 0, changed = 0, encoded_bytes = 0, weight_bytes = 0;
  std::size_t tensors = 0, changed_tensors = 0;
};

Totals total_of(const CheckpointChange& change) {
  Totals totals;
  for (const PlaceChange& place : change.places) {
    if (!place.tensors) continue;
    totals.weight_bytes += place.size_bytes;
    totals.elements += place.tensors->description.element_count;
    totals.changed += place.tensors->description.change_count;
    totals.encoded_bytes += place.tensors->encoded_bytes;
    totals.tensors += place.tensors->tensors.size();
    for (const TensorChange& tensor : place.tensors->tensors)
      totals.changed_tensors += tensor.change_count > 0 || tensor.afresh ? 1 : 0;
  }
  return totals;
}

std::uint64_t written_bytes(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  std::uint64_t total = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) total += entry.file_size();
  }
  return total;
}

void print_totals(const Totals& totals) {
  fmt::print("{} of {} tensors, {} of {} elements changed ({}); coded: {}", totals.changed_tensors, totals.tensors,
             count_text(totals.changed), count_text(totals.elements), share_text(totals.changed, totals.elements),
             size_text(totals.encoded_bytes));
  if (totals.changed > 0) {
    fmt::print(", {:.2f} bits a change, {} of the weights",
               8.0 * static_cast<double>(totals.encoded_bytes) / static_cast<double>(totals.changed),
               share_text(totals.encoded_bytes, totals.weight_bytes));
  }
  fmt::print("\n");
}

BlockChoice choice_named(const std::string& name) {
  if (name == "classed") return BlockChoice::classed;
  if (name == "sparse") return BlockChoice::sparse;
  if (name == "dense") return BlockChoice::dense;
  if (name == "whole") return BlockChoice::whole;
  if (name == "afresh") return BlockChoice::afresh;
  return BlockChoice::automatic;
}

// A delta that took the place of one of the checkpoints it is about would be lost work; one among its files would make
// it another checkpoint.
void refuse_input_as_output(const DiffOptions& options, const Context& context) {
  for (const std::string* input : {&options.base, &options.next}) {
    const auto repository = repository_directory_of(*input, context);
    if (!options.output.empty() && repository && is_or_lies_in(options.output, *repository))
      throw Error(Fault::usage, options.output, "lies in a repository", "write the delta somewhere else");
    if (!options.output.empty() && is_or_lies_in(options.output, *input)) {
      throw Error(Fault::usage, options.output, "is one of the two checkpoints, or lies in it",
                  "write the delta somewhere else");
    }
  }
}

int run_diff(const DiffOptions& options, Context& context) {
  require_file_name(options.output);
  refuse_input_as_output(options, context);
  // A commit has nothing of what a push leaves out, so that this is no difference.
  const bool is_of_commit = names_commit(options.base) || names_commit(options.next);
  const auto filter_for = [&](const std::string& path) { return is_of_commit ? ignore_filter(path) : PathFilter(); };
  const Checkpoint base = open_checkpoint(options.base, context, filter_for(options.base));
  const Checkpoint next = open_checkpoint(options.next, context, filter_for(options.next));
  const auto output = options.output.empty() ? std::nullopt : std::optional<std::filesystem::path>(options.output);
  const CheckpointChange change =
      diff_checkpoints(base, next, output, choice_named(options.encoding), context.engine(), context.execution());
  context.progress->wipe();
  const Totals totals = total_of(change);
  if (context.json) {
    Json json = {{"base", base.name()},         {"next", next.name()},       {"differs", change.any()},
                 {"elements", totals.elements}, {"changed", totals.changed}, {"encoded_bytes", totals.encoded_bytes}};
    if (output) json["delta_bytes"] = written_bytes(*output);
    json["files"] = Json::array();
    for (const PlaceChange& place : change.places) json["files"].push_back(to_json(place));
    context.print(json);
  } else if (!context.quiet) {
    if (!output) print_places(change, options.summary);
    if (totals.tensors > 0) print_totals(totals);
    if (output) fmt::print("wrote {}: {}\n", options.output, size_text(written_bytes(*output)));
  }
  return options.exit_code && change.any() ? k_exit_differences : 0;
}

}  // namespace

void add_diff(CLI::App& app, Context& context) {
  const auto options = std::make_shared<DiffOptions>();
  declare(app, "OLD", options->base, "The base: a file, a checkpoint directory, or REPO@REV")
      .required()
      .check(not_empty);
  declare(app, "NEW", options->next, "What became of it: the same kinds").required().check(not_empty);
  declare(app, "-o,--output", options->output, "Write the delta here: a file for files, a directory for directories")
      .check(not_empty)
      .value_name("FILE");
  declare_flag(app, "--stat", options->summary, "Print a line for each file, not one for each tensor");
  declare(app, "--encoding", options->encoding,
          "How to write the changes of a block (default: auto, as a rule the smallest)")
      .value_name("E")
      .one_of({"auto", "classed", "sparse", "dense", "whole", "afresh"});
  add_stage_option(app, context);
  declare_flag(app, "--exit-code", options->exit_code, "Exit 10 when there are differences");
  declare_run(app, context, [options, &context] { return run_diff(*options, context); });
}

}  // namespace wdelta::cmd
