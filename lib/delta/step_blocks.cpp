// SPDX-License-Identifier: Apache-2.0
#include "delta/step_blocks.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace wdelta {
namespace {

// So much of a delta is read at once: a call for what a few blocks have takes longer than copying that.
constexpr std::uint64_t k_read_bytes = std::uint64_t{32} << 10;
// What a batch that is ahead may take where nobody says.
constexpr std::size_t k_ahead_bytes = std::size_t{512} << 10;

}  // namespace

void StepBlocks::begin(const TensorPlan::Step& step, const Tensor& tensor, std::uint64_t first, std::uint64_t end) {
  const bool is_another = step_.entry != step.entry;
  first_ = first;
  end_ = end;
  tensor_ = &tensor;
  is_read_ = false;
  forget_batches([](const Batch& batch) { return batch.state != Batch::State::kept; });  // after an error
  forget_batches_before(is_another ? UINT64_MAX : first);
  if (is_another) {
    groups_.clear();
    coded_ = {};
    step_ = step;
  } else {
    const std::size_t first_group = step.entry->group_of(first);
    std::erase_if(groups_, [&](const Group& group) { return group.index < first_group; });
  }
}

void StepBlocks::forget_batches_before(std::uint64_t block) {
  forget_batches([&](const Batch& batch) { return batch.blocks.end <= block; });
}

template <class Which>
void StepBlocks::forget_batches(Which which) {
  for (Batch& batch : batches_) {
    if (which(std::as_const(batch))) with_->idle.push_back(std::move(batch.decoded));
  }
  std::erase_if(batches_, [](const Batch& batch) { return batch.decoded == nullptr; });
}

const GroupTables* StepBlocks::tables_of(std::size_t group_index) {
  const auto kept = std::ranges::find(groups_, group_index, &Group::index);
  if (kept != groups_.end()) return kept->tables.get();
  const EntryGroup& group = entry_group(group_index);
  if (group.parameters_bytes == 0) return nullptr;
  std::vector<std::uint8_t> parameters(group.parameters_bytes);
  step_.delta->read_at(group.parameters_begin, parameters);
  const std::uint64_t first = group.first_block() * k_block_elements;
  const std::uint64_t element_count =
      std::min(group.block_count() * k_block_elements, tensor_->element_count() - first);
  auto tables = std::make_unique<const GroupTables>(
      parameters,
      GroupShape{element_type(*tensor_), group.block_count(), element_count, MatrixPlace{step_.row_elements, first},
                 group.strips.blocks_in_strip},
      references_.of(step_.delta, group, element_type(*tensor_)));
  const std::span<const ClassCounts> counts = tables->parameters().strips;
  for (std::uint64_t strip = 0; strip < counts.size(); strip += group.strips_in_batch) {
    const auto batch = counts.subspan(strip, std::min<std::uint64_t>(group.strips_in_batch, counts.size() - strip));
    const std::uint64_t block = group.first_block() + group.strips.blocks_of(strip).first;
    const DeltaEntry::Place place = step_.entry->place_of(block);
    const bool has_classed = std::ranges::any_of(batch, is_classed);
    if (place.begin == place.end && has_classed)
      throw Error(Fault::corrupt, "", fmt::format("its group takes block {} for a classed one", block));
    if (place.begin != place.end && !has_classed && !group.may_be_alone())
      throw Error(Fault::corrupt, "", fmt::format("its group has bytes for block {}, where nothing changed", block));
  }
  return groups_.emplace_back(Group{group_index, std::move(tables)}).tables.get();
}

StepBlocks::Coding StepBlocks::coding_of(std::uint64_t block) {
  const DeltaEntry& entry = *step_.entry;
  const std::size_t group_index = entry.group_of(block);
  const EntryGroup& group = entry_group(group_index);
  const DeltaEntry::Place place = entry.place_of(group_index, block - group.first_block());
  if (place.begin == place.end) return Coding::same;
  const GroupTables* const tables = tables_of(group_index);
  if (tables != nullptr && is_classed(tables->parameters().strips[group.strips.of(block - group.first_block())]))
    return Coding::classed;
  return group.may_be_alone() ? Coding::alone : Coding::same;
}

bool StepBlocks::skips_rows(std::uint64_t block) {
  const GroupTables* const tables = tables_of(step_.entry->group_of(block));
  return tables != nullptr && tables->skips_rows();
}

const StepBlocks::Batch* StepBlocks::batch_of(std::uint64_t block) const {
  const auto batch = std::ranges::find_if(
      batches_, [&](const Batch& of) { return of.blocks.first <= block && block < of.blocks.end; });
  return batch == batches_.end() ? nullptr : &*batch;
}

// The one that the strip is in, without memory to decode it into.
StepBlocks::Batch StepBlocks::batch_with(std::size_t group_index, const GroupTables& tables, std::uint64_t strip,
                                         Batch::State state, std::uint64_t wanted_for) const {
  const EntryGroup& group = entry_group(group_index);
  const std::uint64_t first = strip - strip % group.strips_in_batch;
  const IndexRange strips{first, std::min(first + group.strips_in_batch, group.strips.count())};
  const IndexRange blocks{group.first_block() + group.strips.blocks_of(first).first,
                          group.first_block() + group.strips.blocks_of(strips.end - 1).end};
  std::size_t changes = 0;
  for (std::uint64_t i = strips.first; i < strips.end; ++i) {
    const ClassCounts& counts = tables.parameters().strips[i];
    changes += std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  const std::size_t size_bytes = DecodedBatch::size_bytes(changes, tables.shape().type.width_bytes);
  return {group_index, &tables, strips, blocks, size_bytes, nullptr, state, wanted_for};
}

void StepBlocks::add(Batch batch) {
  auto& idle = with_->idle;
  if (idle.empty()) idle.push_back(std::make_unique<DecodedBatch>());
  batch.decoded = std::move(idle.back());
  idle.pop_back();
  batches_.push_back(std::move(batch));
}

void StepBlocks::want(std::uint64_t block) {
  if (batch_of(block) != nullptr) return;
  const std::size_t group = step_.entry->group_of(block);
  const std::uint64_t strip = entry_group(group).strips.of(block - entry_group(group).first_block());
  add(batch_with(group, *tables_of(group), strip, Batch::State::wanted, block));
}

bool StepBlocks::want_next(std::size_t most_bytes) {
  if (batches_.empty() || batches_.back().state == Batch::State::kept) return false;
  const Batch& last = batches_.back();
  const std::span<const ClassCounts> strips = last.tables->parameters().strips;
  const std::uint64_t next = last.strips.end;
  if (next >= strips.size()) return false;
  const std::uint64_t end = std::min(next + entry_group(last.group).strips_in_batch, strips.size());
  if (std::ranges::none_of(strips.subspan(next, end - next), is_classed)) return false;
  Batch batch = batch_with(last.group, *last.tables, next, Batch::State::ahead, last.blocks.end);
  if (batch.size_bytes > most_bytes) return false;
  add(std::move(batch));
  return true;
}

std::size_t StepBlocks::wanted_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(batches_, [](const Batch& batch) { return batch.state != Batch::State::kept; }));
}

void StepBlocks::list_wanted(std::size_t step, std::vector<WantedBatch>& wanted) {
  for (const Batch& batch : batches_) {
    if (batch.state == Batch::State::kept) continue;
    read();
    const DeltaEntry::Place place = step_.entry->place_of(batch.blocks.first);
    const auto bytes = coded_.subspan(place.begin - coded_begin_, place.end - place.begin);
    wanted.push_back({{batch.tables, batch.strips, bytes, batch.decoded.get()},
                      step,
                      batch.wanted_for,
                      batch.state == Batch::State::ahead});
  }
}

void StepBlocks::keep_wanted(bool with_those_ahead) {
  if (!with_those_ahead) forget_batches([](const Batch& batch) { return batch.state == Batch::State::ahead; });
  for (Batch& batch : batches_) batch.state = Batch::State::kept;
}

// What is asked for from the first block on that no batch has, and as much behind it as is worth having: blocks come
// one after the other.
void StepBlocks::read() {
  if (std::exchange(is_read_, true)) return;
  const DeltaEntry& entry = *step_.entry;
  std::uint64_t first = first_;
  const auto is_kept = [&](const Batch* batch) { return batch != nullptr && batch->state == Batch::State::kept; };
  while (is_kept(batch_of(first))) first = batch_of(first)->blocks.end;
  const std::uint64_t begin = entry.place_of(first).begin;
  std::uint64_t end = entry.place_of(end_ - 1).end;
  if (!batches_.empty()) end = std::max(end, entry.place_of(batches_.back().blocks.first).end);
  if (begin >= coded_begin_ && end <= coded_begin_ + coded_.size() && !coded_.empty()) return;
  const std::uint64_t last = entry.place_of(entry.block_count() - 1).end;
  coded_ = {};
  coded_begin_ = begin;
  const auto bytes = buffer_.of_size(std::max(end, std::min(begin + k_read_bytes, last)) - begin);
  step_.delta->read_at(begin, bytes);
  coded_ = bytes;
}

std::span<const std::uint8_t> StepBlocks::bytes_of(std::uint64_t block) {
  const DeltaEntry::Place place = step_.entry->place_of(block);
  read();
  return coded_.subspan(place.begin - coded_begin_, place.end - place.begin);
}

StepBlocks::Classed StepBlocks::classed(std::uint64_t block) {
  if (batch_of(block) == nullptr) {
    want(block);
    while (wanted_count() < ClassedDecoder::k_at_once && batches_.back().blocks.end < end_ &&
           want_next(k_ahead_bytes)) {
    }
    std::vector<WantedBatch> wanted;
    list_wanted(0, wanted);
    keep_wanted(with_->decode(wanted, [](const Error& error, const WantedBatch&) { throw error; }));
  }
  const Batch& batch = *batch_of(block);
  const EntryGroup& group = entry_group(batch.group);
  const std::uint64_t in_group = block - group.first_block();
  return {batch.tables, in_group, &batch.decoded->changes_of(group.strips.of(in_group))};
}

std::size_t StepBlocks::kept_bytes() const {
  return std::accumulate(batches_.begin(), batches_.end(), std::size_t{0},
                         [](std::size_t sum, const Batch& batch) { return sum + batch.size_bytes; });
}

}  // namespace wdelta
