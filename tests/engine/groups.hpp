// SPDX-License-Identifier: Apache-2.0
// Groups of blocks for the tests of this room: coded, and decoded, by every engine that runs here.
#pragma once

#include "elements.hpp"
#include "engine/change_symbols.hpp"
#include "engine/group.hpp"
#include "testing/decoded_group.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <vector>

namespace wdelta::testing {

inline GroupShape shape_of(std::size_t bytes, ElementType type, const MatrixPlace& place) {
  const std::uint64_t elements = bytes / type.width_bytes;
  return {type, (elements + k_block_elements - 1) / k_block_elements, elements, place};
}

inline void encode_group(GroupEncoder& encoder, const std::vector<std::uint8_t>& base,
                         const std::vector<std::uint8_t>& next, ElementType type, const MatrixPlace& place,
                         CodedGroup& group) {
  encoder.begin(type, place, ExpectedElements::exactly(base.size() / type.width_bytes));
  each_block_of(base.size(), type, [&](std::size_t, std::size_t begin, std::size_t size) {
    encoder.add(std::span(base).subspan(begin, size), std::span(next).subspan(begin, size));
  });
  encoder.finish(group);
}

/// The same from changes that are found and ranked here, as a device does it.
inline void encode_compared_group(GroupEncoder& encoder, const std::vector<std::uint8_t>& base,
                                  const std::vector<std::uint8_t>& next, ElementType type, const MatrixPlace& place,
                                  CodedGroup& group) {
  struct Block final : BlockBytes {
    std::span<const std::uint8_t> base_bytes, next_bytes;
    std::vector<std::uint16_t> positions = std::vector<std::uint16_t>(k_block_elements + 64);
    std::vector<std::uint8_t> steps = std::vector<std::uint8_t>((k_block_elements + 64) * 4);
    std::vector<std::uint8_t> contexts;
    std::span<const std::uint8_t> base() override { return base_bytes; }
    std::span<const std::uint8_t> next() override { return next_bytes; }
  };
  const BlockKernels& kernels = engines().back().block(type);
  const auto rank = [&](std::size_t number, const Block& block) {
    const ClassBounds& bounds = encoder.bounds();
    std::vector<std::uint16_t> ranks(block.positions.size());
    std::vector<std::uint8_t> classes(block.positions.size());
    std::array<std::uint32_t, k_most_classes> members{};
    kernels.rank_changes(
        block.base_bytes.data(), static_cast<std::uint32_t>(block.base_bytes.size() / type.width_bytes), bounds.data(),
        static_cast<std::uint32_t>(bounds.size()), block.positions.data(),
        static_cast<std::uint32_t>(block.positions.size()), ranks.data(), classes.data(), members.data());
    encoder.add_ranks(number, {block.positions, block.steps.data(), ranks.data(), classes.data(), members.data()});
  };
  encoder.begin(type, place, ExpectedElements::exactly(base.size() / type.width_bytes));
  each_block_of(base.size(), type, [&](std::size_t, std::size_t begin, std::size_t size) {
    Block block;
    block.base_bytes = std::span(base).subspan(begin, size);
    block.next_bytes = std::span(next).subspan(begin, size);
    const auto count = static_cast<std::uint32_t>(size / type.width_bytes);
    block.positions.resize(kernels.find_changes(block.base_bytes.data(), block.next_bytes.data(), count,
                                                block.positions.data(), block.steps.data()));
    for (const std::size_t at : block.positions) {
      const std::uint64_t element = get(block.base_bytes.data(), at, type.width_bytes);
      block.contexts.push_back(context_of(element << (64 - 8 * type.width_bytes), type.kind));
    }
    const std::size_t number = encoder.block_count();
    encoder.add({count, block.positions, block.steps.data(), block.contexts.data()}, block);
    if (encoder.wants_ranks(number)) rank(number, block);
  });
  encoder.finish(group);
}

/// One encoder and one decoder per engine that runs here, used again and again, for one choice of mode.
class GroupCoders {
 public:
  explicit GroupCoders(BlockChoice choice) {
    for (const Engine& engine : engines()) {
      if (!engine.usable()) continue;
      names_.emplace_back(engine.name);
      engines_.push_back(&engine);
      encoders_.emplace_back(engine, choice);
      decoders_.emplace_back(engine);
    }
    compared_.emplace(engines().back(), choice);
  }

  /// Groups from here on may refer to each other; before the first run none refers to any.
  void begin_run() {
    for (GroupEncoder& encoder : encoders_) encoder.begin_run();
    compared_->begin_run();
    told_.clear();
  }

  /// Encodes with every engine, decodes with every engine. Returns what is wrong, or nothing.
  std::string wrong_with(const std::vector<std::uint8_t>& base, const std::vector<std::uint8_t>& next, ElementType type,
                         const MatrixPlace& place = {}) {
    const std::vector<BlockSummary> by_the_page = summaries_by_the_page(base, next, type);
    const GroupShape shape = shape_of(base.size(), type, place);
    for (std::size_t i = 0; i < encoders_.size(); ++i) {
      CodedGroup& made = i == 0 ? coded : other_;
      encode_group(encoders_[i], base, next, type, place, made);
      if (made.parameters != coded.parameters) return names_[i] + ": other parameters than " + names_[0];
      if (made.bytes != coded.bytes) return names_[i] + ": other bytes than " + names_[0];
      if (made.reference != coded.reference) return names_[i] + ": another reference than " + names_[0];
      if (const char* const wrong = wrong_summary(made, by_the_page, shape)) return names_[i] + ": " + wrong;
    }
    if (compared_->takes_compared(type)) {
      encode_compared_group(*compared_, base, next, type, place, other_);
      if (other_.parameters != coded.parameters) return "compared elsewhere: other parameters";
      if (other_.bytes != coded.bytes) return "compared elsewhere: other bytes";
      if (other_.reference != coded.reference) return "compared elsewhere: another reference";
      if (const char* const wrong = wrong_summary(other_, by_the_page, shape))
        return std::string("compared elsewhere: ") + wrong;
    }
    std::optional<GroupReference> reference;
    if (coded.reference > told_.size()) return "refers to a group that is not there";
    if (coded.reference != 0) {
      Told& told = told_[told_.size() - coded.reference];
      told.shape.type = type;
      reference = read_group_reference(told.parameters, told.shape);
    }
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
      elements_ = base;
      try {
        const DecodedGroup group(*engines_[i], coded, shape, reference ? &*reference : nullptr);
        apply_group(decoders_[i], group, type, elements_);
      } catch (const std::exception& error) {
        return names_[i] + ": refuses: " + error.what();
      }
      if (elements_ != next) return names_[i] + ": does not come back";
    }
    if (!coded.parameters.empty() && coded.reference == 0)
      told_.push_back({coded.parameters, with_strips(shape, coded.blocks_in_strip)});
    return "";
  }

  /// Bytes of the group made last, all together.
  std::size_t size_bytes() const { return coded.parameters.size() + coded.bytes.size(); }

  CodedGroup coded;

 private:
  /// But for the modes.
  static std::vector<BlockSummary> summaries_by_the_page(const std::vector<std::uint8_t>& base,
                                                         const std::vector<std::uint8_t>& next, ElementType type) {
    std::vector<BlockSummary> summaries;
    each_block_of(base.size(), type, [&](std::size_t, std::size_t begin, std::size_t size) {
      BlockSummary& summary = summaries.emplace_back();
      for (std::size_t i = begin; i < begin + size; i += type.width_bytes) {
        const std::uint64_t step = step_by_the_page(get(base.data() + i, 0, type.width_bytes),
                                                    get(next.data() + i, 0, type.width_bytes), type);
        summary.changes += step != 0;
        summary.largest_step = std::max(summary.largest_step, step / 2 + step % 2);
      }
    });
    return summaries;
  }

  static const char* wrong_summary(const CodedGroup& made, const std::vector<BlockSummary>& by_the_page,
                                   const GroupShape& shape) {
    const char* wrong = nullptr;
    const std::uint64_t in_batch = made.strips_in_batch;
    const bool may_be_alone = in_batch == 1 && made.blocks_in_strip == 1;
    const Strips strips = with_strips(shape, made.blocks_in_strip).strips();
    if (made.blocks.size() != strips.block_count || made.blocks.size() != by_the_page.size() ||
        made.batch_bytes.size() != (strips.count() + in_batch - 1) / in_batch)
      return "blocks or batches are missing";
    std::vector<std::uint64_t> changes_in_batch(made.batch_bytes.size());
    std::size_t coded = 0;
    bool any_classed = false;
    for (std::size_t block = 0; block < made.blocks.size(); ++block) {
      const BlockSummary& summary = made.blocks[block];
      const std::uint32_t changes = by_the_page[block].changes;
      if (summary.changes != changes || summary.largest_step != by_the_page[block].largest_step) wrong = "summary";
      if ((changes == 0) != (summary.mode == BlockMode::same)) wrong = "mode of a block without changes, or with some";
      const bool is_alone = summary.mode != BlockMode::same && summary.mode != BlockMode::classed;
      if (is_alone && (!may_be_alone || (made.bytes[coded] & 0x0f) != static_cast<std::uint8_t>(summary.mode)))
        wrong = "mode";
      any_classed |= summary.mode == BlockMode::classed;
      changes_in_batch[strips.of(block) / in_batch] += changes;
      if (may_be_alone) coded += made.batch_bytes[block];
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < made.batch_bytes.size(); ++i) {
      bytes += made.batch_bytes[i];
      if ((changes_in_batch[i] == 0) != (made.batch_bytes[i] == 0))
        wrong = "a batch without changes has bytes, or one with changes none";
      if (changes_in_batch[i] > k_most_batch_changes) wrong = "too many changes in a batch";
    }
    if (bytes != made.bytes.size()) wrong = "sizes do not add up";
    if (any_classed == made.parameters.empty()) wrong = "parameters without use, or use without";
    return wrong;
  }

  /// A group of the run that refers to none.
  struct Told {
    std::vector<std::uint8_t> parameters;
    GroupShape shape;
  };

  std::vector<std::string> names_;
  std::vector<GroupEncoder> encoders_;
  std::vector<const Engine*> engines_;
  std::vector<BlockChain> decoders_;
  std::optional<GroupEncoder> compared_;
  CodedGroup other_;
  std::vector<Told> told_;
  std::vector<std::uint8_t> elements_;
};

/// Fails where anything is wrong with them.
inline void check(GroupCoders& coders, const std::vector<std::uint8_t>& base, const std::vector<std::uint8_t>& next,
                  ElementType type, const MatrixPlace& place = {}) {
  const std::string wrong = coders.wrong_with(base, next, type, place);
  if (wrong.empty()) return;
  CAPTURE(int{type.width_bytes});
  CAPTURE(int(type.kind));
  CAPTURE(base.size() / type.width_bytes);
  CAPTURE(place.row_elements);
  CAPTURE(place.first_element);
  FAIL(wrong);
}

}  // namespace wdelta::testing
