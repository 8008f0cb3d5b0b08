// SPDX-License-Identifier: Apache-2.0
#include "make_run/run_writer.hpp"

#include "make_run/output_file.hpp"
#include "make_run/side_files.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace wdelta::make_run {

// The weights are written as they lie in memory.
static_assert(std::endian::native == std::endian::little);

namespace {

// Those who save checkpoints write a tensor at a time: what is written in large pieces lies in the page cache in large
// pages, which take less to map.
constexpr std::uint64_t k_piece_bytes = std::uint64_t{16} << 20;

void write_file(const std::filesystem::path& path, const std::string& content) {
  OutputFile(path).write_at(0, content.data(), content.size());
}

}  // namespace

RunWriter::RunWriter(RunOptions options)
    : options_(std::move(options)),
      shape_(ModelShape::of_size(options_.size_bytes)),
      plans_(tensors_of(shape_)),
      shards_(shards_of(plans_, options_.shard_count)) {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    for (const PlacedTensor& placed : shards_[shard].tensors) {
      const TensorPlan& plan = plans_[placed.tensor];
      const std::uint64_t row_count = std::max<std::uint64_t>(1, k_piece_bytes / (plan.columns * 2));
      for (std::uint64_t row = 0; row < plan.rows; row += row_count) {
        pieces_.push_back({shard, placed, row, std::min(row_count, plan.rows - row)});
      }
    }
  }
}

std::filesystem::path RunWriter::step_directory(std::uint64_t step) const {
  char name[32];
  std::snprintf(name, sizeof name, "step-%04llu", static_cast<unsigned long long>(step));
  return options_.directory / name;
}

std::uint64_t RunWriter::weight_bytes() const {
  std::uint64_t total = 0;
  for (const TensorPlan& plan : plans_) total += plan.size_bytes();
  return total;
}

Movement RunWriter::write(std::uint64_t step) const {
  std::filesystem::create_directories(options_.directory);
  const std::filesystem::path directory = step_directory(step);
  if (!std::filesystem::create_directory(directory)) throw std::runtime_error(directory.string() + " exists already");
  write_side_files(step);
  return write_weights(step);
}

Movement RunWriter::write_weights(std::uint64_t step) const {
  std::vector<OutputFile> files;
  for (const ShardLayout& shard : shards_) {
    files.emplace_back(step_directory(step) / shard.file_name);
    files.back().write_at(0, shard.head.data(), shard.head.size());
  }

  std::atomic<std::size_t> next = 0;
  const auto write_pieces = [&] {
    Movement movement;
    std::optional<Weights> weights;  // kept from piece to piece of the same tensor
    std::vector<std::uint16_t> bits;
    for (std::size_t at = next++; at < pieces_.size(); at = next++) {
      const Piece& piece = pieces_[at];
      const TensorPlan& plan = plans_[piece.placed.tensor];
      if (!weights || &weights->plan() != &plan) weights.emplace(plan, options_.training);
      bits.resize(piece.row_count * plan.columns);
      for (std::uint64_t row = 0; row < piece.row_count; ++row) {
        const std::span<std::uint16_t> row_bits(bits.data() + row * plan.columns, plan.columns);
        movement += weights->row_at(step, piece.first_row + row, row_bits);
      }
      const std::uint64_t offset = piece.placed.offset + piece.first_row * plan.columns * 2;
      files[piece.shard].write_at(offset, bits.data(), bits.size() * sizeof bits[0]);
    }
    return movement;
  };

  std::vector<std::future<Movement>> threads;
  for (unsigned i = 0; i < options_.thread_count; ++i) threads.push_back(std::async(std::launch::async, write_pieces));
  Movement movement;
  for (std::future<Movement>& thread : threads) movement += thread.get();
  for (OutputFile& file : files) file.close();
  return movement;
}

void RunWriter::write_side_files(std::uint64_t step) const {
  const std::filesystem::path directory = step_directory(step);
  const Training& training = options_.training;
  write_file(directory / "config.json", config_json(shape_));
  write_file(directory / "generation_config.json", generation_config_json());
  write_file(directory / "tokenizer.json", tokenizer_json(training));
  write_file(directory / "trainer_state.json", trainer_state_json(training, step));
  write_file(directory / "scheduler.pt", scheduler_bytes(training, step));
  if (shards_.size() > 1) write_file(directory / "model.safetensors.index.json", index_of(plans_, shards_));
}

}  // namespace wdelta::make_run
