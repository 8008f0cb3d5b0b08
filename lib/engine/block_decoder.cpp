// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "engine/afresh_block.hpp"
#include "engine/block.hpp"
#include "engine/classed_decoder.hpp"
#include "engine/frame.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace wdelta {
namespace {

constexpr std::uint8_t k_reserved_bits = 0xe0;

enum class Packing { stored, frame };

using Bytes = std::span<const std::uint8_t>;

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", what); }

/// Takes the number of changes from the front of `rest`. Three digits hold more than a block has elements.
std::uint32_t take_changes(Bytes& rest, std::uint32_t element_count) {
  std::uint32_t changes = 0;
  for (std::size_t digit = 0;; ++digit) {
    if (digit == 3) refuse("its number of changes is out of range");
    if (digit == rest.size()) refuse("its number of changes is cut off");
    changes |= static_cast<std::uint32_t>(rest[digit] & 0x7f) << (7 * digit);
    if (rest[digit] >= 0x80) continue;
    if (rest[digit] == 0 && digit != 0) refuse("its number of changes is longer than needed");
    rest = rest.subspan(digit + 1);
    break;
  }
  if (changes == 0 || changes > element_count) {
    refuse("it claims " + std::to_string(changes) + " changes in " + std::to_string(element_count) + " elements");
  }
  return changes;
}

std::uint64_t unpacked_bytes(Bytes rest, Packing packing) {
  return packing == Packing::stored ? rest.size() : FrameReader::content_bytes(rest);
}

void require_length(std::uint64_t is, std::size_t least, std::size_t most) {
  if (is < least || is > most) {
    refuse("its streams have " + std::to_string(is) + " bytes, which its mode does not allow");
  }
}

}  // namespace

struct BlockDecoder::Scratch {
  // Left unset: pages that a small element type never reaches are never touched.
  std::unique_ptr<std::uint16_t[]> positions = std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements);
  std::unique_ptr<std::byte[]> steps =
      std::make_unique_for_overwrite<std::byte[]>(k_block_elements * sizeof(std::uint64_t));
  std::unique_ptr<std::uint8_t[]> streams =
      std::make_unique_for_overwrite<std::uint8_t[]>(sparse_most_bytes(k_block_elements, 8) + k_sparse_slack_bytes);
  FrameReader reader;

  void unpack(Bytes rest, Packing packing, std::span<std::uint8_t> content) {
    if (packing == Packing::stored) {
      std::ranges::copy(rest, content.begin());
    } else {
      reader.read(rest, content);
    }
  }

  void apply_sparse(const BlockKernels& kernels, Bytes rest, Packing packing, ElementType type,
                    std::span<std::uint8_t> elements) {
    const auto count = static_cast<std::uint32_t>(elements.size() / type.width_bytes);
    const std::uint32_t changes = take_changes(rest, count);
    const std::uint64_t size_bytes = unpacked_bytes(rest, packing);
    require_length(size_bytes, sparse_least_bytes(changes), sparse_most_bytes(changes, type.width_bytes));
    const std::span<std::uint8_t> content(streams.get(), size_bytes);
    // Stored streams are copied too: part_sparse may look a few bytes beyond them.
    unpack(rest, packing, content);
    std::fill_n(content.data() + content.size(), k_sparse_slack_bytes, std::uint8_t{0});
    const char* const wrong =
        part_sparse(content.data(), content.size(), changes, type.width_bytes, count, positions.get(), steps.get());
    if (wrong != nullptr) refuse(wrong);
    kernels.apply_changes(elements.data(), positions.get(), steps.get(), changes);
  }

  void apply_dense(const BlockKernels& kernels, Bytes rest, Packing packing, ElementType type,
                   std::span<std::uint8_t> elements) {
    require_length(unpacked_bytes(rest, packing), elements.size(), elements.size());
    if (packing == Packing::frame) {
      reader.read(rest, {streams.get(), elements.size()});
      rest = {streams.get(), elements.size()};
    }
    kernels.merge_steps(elements.data(), static_cast<std::uint32_t>(elements.size() / type.width_bytes), rest.data());
  }

  void apply_whole(Bytes rest, Packing packing, std::span<std::uint8_t> elements) {
    require_length(unpacked_bytes(rest, packing), elements.size(), elements.size());
    unpack(rest, packing, elements);
  }
};

BlockDecoder::BlockDecoder(const Engine& engine) : engine_(&engine), scratch_(std::make_unique<Scratch>()) {}
BlockDecoder::~BlockDecoder() = default;
BlockDecoder::BlockDecoder(BlockDecoder&&) noexcept = default;

void BlockDecoder::apply(std::span<const std::uint8_t> coded, ElementType type, std::span<std::uint8_t> elements) {
  if (coded.empty()) return;
  if (elements.size() % type.width_bytes != 0 || elements.size() / type.width_bytes > k_block_elements) {
    throw Error(Fault::internal, "", "a block of " + std::to_string(elements.size()) + " bytes cannot be patched");
  }
  const std::uint8_t first = coded.front();
  if ((first & k_reserved_bits) != 0) refuse("it sets bits that are kept for later versions");
  const Packing packing = (first & k_stored) != 0 ? Packing::stored : Packing::frame;
  const Bytes rest = coded.subspan(1);
  const BlockKernels& kernels = engine_->block(type);
  const BlockMode mode = mode_of(coded);
  switch (mode) {
    case BlockMode::sparse:
      return scratch_->apply_sparse(kernels, rest, packing, type, elements);
    case BlockMode::dense:
      return scratch_->apply_dense(kernels, rest, packing, type, elements);
    case BlockMode::whole:
      return scratch_->apply_whole(rest, packing, elements);
    case BlockMode::afresh:
      if (packing == Packing::stored) refuse("it sets bits that are kept for later versions");
      if (!afresh_) afresh_ = std::make_unique<AfreshDecoder>();
      return afresh_->apply(kernels, rest, type, elements);
    default:
      refuse("its mode " + std::to_string(static_cast<unsigned>(mode)) + " is unknown");
  }
}

}  // namespace wdelta
