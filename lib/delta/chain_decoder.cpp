// SPDX-License-Identifier: Apache-2.0
#include "delta/chain_decoder.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace wdelta {
namespace {

// As many as a delta's tables are worth bringing into the cache for.
constexpr std::uint64_t k_blocks_at_a_time = 8;
// Of changes, so that memory stays bounded however long the chain is; more where blocks are dense, but not of more than
// one step then.
constexpr std::size_t k_kept_bytes = std::size_t{512} << 10;
// So much of a delta is read at once: a call for what a few blocks have takes longer than copying that.
constexpr std::uint64_t k_read_bytes = std::uint64_t{32} << 10;

[[noreturn]] void refuse(const Error& error, const TensorPlan::Step& step, std::string_view tensor,
                         std::uint64_t block) {
  throw Error(error.fault(), step.delta->name(), fmt::format("tensor {:?}, block {}: {}", tensor, block, error.what()));
}

}  // namespace

// Blocks next to each other, in memory.
struct ChainDecoder::Blocks {
  const Tensor* tensor;
  std::uint64_t first;  // number in the tensor
  std::span<std::uint8_t> bytes;

  std::size_t count() const { return (bytes.size() + block_bytes(*tensor) - 1) / block_bytes(*tensor); }
  std::span<std::uint8_t> of(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(i * block_bytes(*tensor));
    return bytes.subspan(begin, std::min<std::size_t>(block_bytes(*tensor), bytes.size() - begin));
  }
};

void ChainDecoder::apply(const Steps& steps, const Tensor& tensor, std::uint64_t first_block,
                         std::span<std::uint8_t> blocks) {
  if (at_.size() < steps.size()) at_.resize(steps.size());
  while (!blocks.empty()) {
    const auto size_bytes = std::min<std::size_t>(blocks.size(), k_blocks_at_a_time * block_bytes(tensor));
    const Blocks together{&tensor, first_block, blocks.first(size_bytes)};
    for (std::size_t step = 0; step < steps.size();) {
      chain_.begin(element_type(tensor));
      step = add_steps(steps, step, together);
      apply_steps(steps, together);
    }
    first_block += together.count();
    blocks = blocks.subspan(size_bytes);
  }
}

// Steps from that one on, as many as are kept at once. Returns the first that is left.
std::size_t ChainDecoder::add_steps(const Steps& steps, std::size_t first_step, const Blocks& blocks) {
  std::size_t index = first_step;
  while (index < steps.size() && index < first_step + k_most_chained && chain_.kept_bytes() < k_kept_bytes)
    add_step(steps, index++, blocks);
  return index;
}

// Bytes of the delta, and as many behind them as are worth having: blocks come one after the other.
std::span<const std::uint8_t> ChainDecoder::AtStep::read(const TensorPlan::Step& step, std::uint64_t begin,
                                                         std::uint64_t end) {
  if (entry != step.entry || begin < coded_begin || end > coded_end) {
    const std::uint64_t last = step.entry->block(step.entry->block_count() - 1).end;
    entry = nullptr;
    coded_begin = begin;
    coded_end = std::max(end, std::min(begin + k_read_bytes, last));
    step.delta->read_at(coded_begin, coded.of_size(coded_end - coded_begin));
    entry = step.entry;
  }
  return coded.of_size(coded_end - coded_begin).subspan(begin - coded_begin, end - begin);
}

void ChainDecoder::add_step(const Steps& steps, std::size_t index, const Blocks& blocks) {
  const TensorPlan::Step& step = steps[index];
  const DeltaEntry& entry = *step.entry;
  AtStep& at = at_[index];
  const std::uint64_t coded_begin = entry.block(blocks.first).begin;
  const std::uint64_t coded_end = entry.block(blocks.first + blocks.count() - 1).end;
  if (coded_begin == coded_end) return;
  const auto coded = at.read(step, coded_begin, coded_end);
  at.kept.drop_before(entry.group_of(blocks.first));
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    const std::uint64_t block = blocks.first + i;
    const DeltaEntry::Block& place = entry.block(block);
    if (place.begin == place.end) continue;
    try {
      const std::size_t group_index = entry.group_of(block);
      const BlockChain::Coded of_block = {coded.subspan(place.begin - coded_begin, place.end - place.begin),
                                          at.kept.of(step, *blocks.tensor, group_index),
                                          block - entry.groups()[group_index].first_block};
      if (!of_block.is_in_classes() && mode_of(of_block.bytes) == BlockMode::afresh && !entry.has_afresh_blocks()) {
        throw Error(Fault::corrupt, "", "it is coded afresh, which its entry's encoding does not have");
      }
      const std::size_t width = element_type(*blocks.tensor).width_bytes;
      chain_.add({i, index}, of_block, static_cast<std::uint32_t>(blocks.of(i).size() / width));
    } catch (const Error& error) {
      refuse(error, step, blocks.tensor->name, block);
    }
  }
}

void ChainDecoder::apply_steps(const Steps& steps, const Blocks& blocks) {
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    try {
      chain_.apply(i, blocks.of(i));
    } catch (const Error& error) {
      refuse(error, steps[chain_.at()], blocks.tensor->name, blocks.first + i);
    }
  }
}

}  // namespace wdelta
