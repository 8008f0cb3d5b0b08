// SPDX-License-Identifier: Apache-2.0
// A coded group taken apart and patched, for tests and fuzz targets.
#pragma once

#include "engine/block_chain.hpp"
#include "engine/group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace wdelta::testing {

/// Calls visit(block, begin, size_bytes) for each block of so many bytes.
template <class Visit>
void each_block_of(std::size_t bytes, ElementType type, Visit visit) {
  const std::size_t whole = std::size_t{k_block_elements} * type.width_bytes;
  for (std::size_t begin = 0; begin < bytes; begin += whole) {
    visit(begin / whole, begin, std::min(whole, bytes - begin));
  }
}

inline GroupShape with_strips(GroupShape shape, std::uint32_t blocks_in_strip) {
  shape.blocks_in_strip = blocks_in_strip;
  return shape;
}

/// The blocks of a group, decoded as far as that needs no base.
class DecodedGroup {
 public:
  using Coded = std::span<const std::uint8_t>;

  /// `batches`: of so many strips each, which stay where they are. `reference`: what the group refers to, or null.
  /// Throws what decoders throw.
  DecodedGroup(const Engine& engine, Coded parameters, const GroupShape& shape, std::uint64_t strips_in_batch,
               std::vector<Coded> batches, const GroupReference* reference = nullptr)
      : strips_(shape.strips()),
        strips_in_batch_(strips_in_batch),
        coded_(std::move(batches)),
        decoded_(coded_.size()) {
    if (parameters.empty()) return;
    tables_.emplace(parameters, shape, reference);
    ClassedDecoder decoder;
    for (std::size_t i = 0; i < coded_.size(); ++i) {
      const IndexRange strips{i * strips_in_batch, std::min((i + 1) * strips_in_batch, strips_.count())};
      const auto counts = std::span(tables_->parameters().strips).subspan(strips.first, strips.end - strips.first);
      const CodedBatch batch{&*tables_, strips, coded_[i], &decoded_[i]};
      if (std::ranges::any_of(counts, is_classed)) decoder.decode(engine, {&batch, 1});
    }
  }
  DecodedGroup(const Engine& engine, const CodedGroup& group, const GroupShape& shape,
               const GroupReference* reference = nullptr)
      : DecodedGroup(engine, group.parameters, with_strips(shape, group.blocks_in_strip), group.strips_in_batch,
                     batches_of(group), reference) {}

  void add_to(BlockChain& chain, const BlockChain::Place& place, std::uint64_t block) const {
    const std::uint64_t strip = strips_.of(block);
    const std::size_t batch = strip / strips_in_batch_;
    if (tables_ && is_classed(tables_->parameters().strips[strip])) {
      chain.add(place, *tables_, block, decoded_[batch].changes_of(strip));
    } else if (strips_.blocks_in_strip == 1 && strips_in_batch_ == 1) {
      chain.add(place, coded_[batch]);
    }
  }
  const GroupTables* tables() const { return tables_ ? &*tables_ : nullptr; }

 private:
  static std::vector<Coded> batches_of(const CodedGroup& group) {
    std::vector<Coded> batches;
    std::size_t at = 0;
    for (const std::size_t size : group.batch_bytes) {
      batches.push_back(std::span(group.bytes).subspan(at, size));
      at += size;
    }
    return batches;
  }

  Strips strips_;
  std::uint64_t strips_in_batch_;
  std::vector<Coded> coded_;
  std::optional<GroupTables> tables_;
  std::vector<DecodedBatch> decoded_;
};

/// Throws what decoders throw.
inline void apply_group(BlockChain& chain, const DecodedGroup& group, ElementType type,
                        std::span<std::uint8_t> elements) {
  chain.begin(type);
  each_block_of(elements.size(), type, [&](std::size_t block, std::size_t, std::size_t) {
    group.add_to(chain, {block, 0}, block);
  });
  each_block_of(elements.size(), type, [&](std::size_t block, std::size_t begin, std::size_t size) {
    chain.apply(block, elements.subspan(begin, size));
  });
}

}  // namespace wdelta::testing
