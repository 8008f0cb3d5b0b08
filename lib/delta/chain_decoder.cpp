// SPDX-License-Identifier: Apache-2.0
#include "delta/chain_decoder.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <fmt/format.h>

namespace wdelta {

void ChainDecoder::read(const Steps& steps, const BlockRange& blocks) {
  if (at_.size() < steps.size()) at_.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DeltaEntry& entry = *steps[i].entry;
    at_[i].coded_begin = entry.block(blocks.first).begin;
    const auto coded = at_[i].coded.of_size(entry.block(blocks.end - 1).end - at_[i].coded_begin);
    if (!coded.empty()) steps[i].delta->read_at(at_[i].coded_begin, coded);
  }
}

// Nothing where the step leaves the block as it is.
std::optional<ChainDecoder::CodedBlock> ChainDecoder::coded_block(const Steps& steps, std::size_t index,
                                                                  const Tensor& tensor, std::uint64_t block) {
  const TensorPlan::Step& step = steps[index];
  AtStep& at = at_[index];
  const DeltaEntry::Block& place = step.entry->block(block);
  if (place.begin == place.end) return std::nullopt;
  const std::size_t group_index = step.entry->group_of(block);
  return CodedBlock{index, at.coded.of_size(place.end - at.coded_begin).subspan(place.begin - at.coded_begin),
                    at.kept.of(step, tensor, group_index), block - step.entry->groups()[group_index].first_block};
}

void ChainDecoder::apply(const Steps& steps, const Tensor& tensor, std::uint64_t block,
                         std::span<std::uint8_t> elements) {
  std::size_t index = 0;
  try {
    of_block_.clear();
    chain_.clear();
    for (index = 0; index < steps.size(); ++index) {
      const auto coded = coded_block(steps, index, tensor, block);
      if (!coded) continue;
      of_block_.push_back(*coded);
      if (coded->is_in_classes()) chain_.push_back(coded->group);
    }
    decoder_.begin_chain(chain_);
    for (const CodedBlock& coded : of_block_) {
      index = coded.step;
      if (!coded.is_in_classes() && mode_of(coded.bytes) == BlockMode::afresh &&
          !steps[index].entry->has_afresh_blocks()) {
        throw Error(Fault::corrupt, "", "it is coded afresh, which its entry's encoding does not have");
      }
      decoder_.apply(coded.bytes, element_type(tensor), elements, coded.group, coded.in_group);
    }
  } catch (const Error& error) {
    throw Error(error.fault(), steps[index].delta->name(),
                fmt::format("tensor {:?}, block {}: {}", tensor.name, block, error.what()));
  }
}

}  // namespace wdelta
