// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "engine/afresh_block.hpp"
#include "engine/block.hpp"
#include "engine/frame.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

namespace wdelta {
namespace {

constexpr std::size_t k_position_room = k_block_elements + 64;
constexpr std::size_t k_most_stream_bytes = sparse_most_bytes(k_block_elements, 8) + k_sparse_slack_bytes;
// From this many changes on, gaps and steps are worth a Huffman table each.
constexpr std::uint32_t k_tables_apart = 512;
// Below this many elements all ways are tried: frames and tables weigh more there than what they are of.
constexpr std::uint32_t k_many_elements = 4096;

std::uint32_t checked_count(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next, ElementType type) {
  if (base.size() != next.size() || next.size() % type.width_bytes != 0 ||
      next.size() / type.width_bytes > k_block_elements) {
    throw Error(Fault::internal, "",
                "a block of " + std::to_string(base.size()) + " and " + std::to_string(next.size()) +
                    " bytes cannot be compared");
  }
  return static_cast<std::uint32_t>(next.size() / type.width_bytes);
}

}  // namespace

bool is_all_zeros(std::span<const std::uint8_t> elements) {
  // Each byte is compared with the one before it.
  return elements.empty() ||
         (elements[0] == 0 && std::memcmp(elements.data(), elements.data() + 1, elements.size() - 1) == 0);
}

struct BlockEncoder::Scratch {
  // Left unset: pages that a small element type never reaches are never touched.
  template <class T>
  static std::unique_ptr<T[]> room(std::size_t count) {
    return std::make_unique_for_overwrite<T[]>(count);
  }

  std::unique_ptr<std::uint16_t[]> positions = room<std::uint16_t>(k_position_room);
  std::unique_ptr<std::byte[]> steps = room<std::byte>(k_position_room * sizeof(std::uint64_t));
  std::unique_ptr<std::uint8_t[]> streams = room<std::uint8_t>(k_most_stream_bytes);
  std::unique_ptr<std::uint8_t[]> frame = room<std::uint8_t>(k_most_stream_bytes);
  FrameWriter symbols{FrameContent::symbols};
  FrameWriter runs{FrameContent::runs};
  std::optional<FrameWriter> bytes;  // made when first asked for
  std::optional<AfreshEncoder> afresh;

  /// Appends a block: its mode, `prefix`, and the first `size_bytes` of streams as a frame where that is smaller.
  void append(BlockMode mode, std::span<const std::uint8_t> prefix, std::size_t size_bytes, FrameWriter& writer,
              std::span<const std::size_t> cuts, std::vector<std::uint8_t>& coded) {
    const std::span<const std::uint8_t> content(streams.get(), size_bytes);
    const std::size_t framed =
        size_bytes < k_least_frame_content ? 0 : writer.write(content, cuts, {frame.get(), size_bytes - 1});
    const std::span<const std::uint8_t> payload = framed != 0 ? std::span(frame.get(), framed) : content;
    coded.push_back(static_cast<std::uint8_t>(static_cast<std::uint8_t>(mode) | (framed != 0 ? 0 : k_stored)));
    coded.insert(coded.end(), prefix.begin(), prefix.end());
    coded.insert(coded.end(), payload.begin(), payload.end());
  }

  /// Returns how long the streams were before compression.
  std::size_t append_sparse(std::uint32_t changes, ElementType type, std::vector<std::uint8_t>& coded) {
    std::array<std::uint8_t, 3> varint{};
    std::size_t digits = 0;
    std::uint32_t rest = changes;
    for (; rest >= 0x80; rest >>= 7) varint[digits++] = static_cast<std::uint8_t>(rest | 0x80);
    varint[digits++] = static_cast<std::uint8_t>(rest);
    const std::size_t size_bytes = join_sparse(positions.get(), steps.get(), changes, type.width_bytes, streams.get());
    const std::size_t behind_gaps[] = {changes};
    append(BlockMode::sparse, std::span(varint).first(digits), size_bytes, symbols,
           std::span(behind_gaps).first(changes >= k_tables_apart ? 1 : 0), coded);
    return size_bytes;
  }

  void append_dense(const BlockKernels& kernels, std::span<const std::uint8_t> base, std::span<const std::uint8_t> next,
                    ElementType type, std::vector<std::uint8_t>& coded) {
    const auto count = static_cast<std::uint32_t>(next.size() / type.width_bytes);
    kernels.split_steps(base.data(), next.data(), count, streams.get());
    std::array<std::size_t, 7> behind_planes{};
    for (std::size_t i = 0; i < behind_planes.size(); ++i) behind_planes[i] = (i + 1) * count;
    bool any_runs = false;
    for (std::size_t plane = 0; plane < type.width_bytes; ++plane) {
      any_runs |= has_runs_of_zeros(count_zeros(streams.get() + plane * count, count), count);
    }
    append(BlockMode::dense, {}, next.size(), any_runs ? runs : symbols,
           std::span(behind_planes).first(type.width_bytes - 1U), coded);
  }

  void append_searched(std::span<const std::uint8_t> next, std::vector<std::uint8_t>& coded) {
    if (!bytes) bytes.emplace(FrameContent::bytes);
    std::ranges::copy(next, streams.get());
    append(BlockMode::whole, {}, next.size(), *bytes, {}, coded);
  }

  void append_afresh(const BlockKernels& kernels, std::span<const std::uint8_t> next, ElementType type,
                     std::vector<std::uint8_t>& coded) {
    if (!afresh) afresh.emplace();
    coded.push_back(static_cast<std::uint8_t>(BlockMode::afresh));
    afresh->append(kernels, next, type, coded);
  }

  static void append_whole(std::span<const std::uint8_t> next, std::vector<std::uint8_t>& coded) {
    coded.push_back(static_cast<std::uint8_t>(BlockMode::whole) | k_stored);
    coded.insert(coded.end(), next.begin(), next.end());
  }
};

BlockEncoder::BlockEncoder(const Engine& engine, BlockChoice choice)
    : engine_(&engine), choice_(choice), scratch_(std::make_unique<Scratch>()) {}
BlockEncoder::~BlockEncoder() = default;
BlockEncoder::BlockEncoder(BlockEncoder&&) noexcept = default;

BlockSummary BlockEncoder::compare(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next,
                                   ElementType type) {
  const std::uint32_t count = checked_count(base, next, type);
  BlockSummary summary;
  summary.changes = engine_->block(type).find_changes(base.data(), next.data(), count, scratch_->positions.get(),
                                                      scratch_->steps.get());
  // Steps alternate between down and up, so the largest step is also the largest in magnitude.
  const std::uint64_t largest = largest_step(scratch_->steps.get(), summary.changes, type.width_bytes);
  summary.largest_step = largest / 2 + largest % 2;
  return summary;
}

BlockSummary BlockEncoder::encode(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next,
                                  ElementType type, std::vector<std::uint8_t>& coded) {
  const std::uint32_t count = checked_count(base, next, type);
  // Where most elements have changed from zeros, nobody asks at which places.
  const bool is_from_zeros = choice_ != BlockChoice::sparse && is_all_zeros(base);
  BlockSummary summary;
  if (is_from_zeros) {
    const StepsFromZeros steps = steps_from_zeros(next.data(), count, type);
    summary.changes = steps.changes;
    summary.largest_step = steps.largest / 2 + steps.largest % 2;
  }
  if (!is_from_zeros || summary.changes <= count / 2) summary = compare(base, next, type);
  if (summary.changes == 0) return summary;
  const BlockKernels& kernels = engine_->block(type);
  const std::size_t begin = coded.size();
  switch (choice_) {
    case BlockChoice::sparse:
      scratch_->append_sparse(summary.changes, type, coded);
      summary.mode = BlockMode::sparse;
      return summary;
    case BlockChoice::dense:
      scratch_->append_dense(kernels, base, next, type, coded);
      summary.mode = BlockMode::dense;
      return summary;
    case BlockChoice::whole:
      Scratch::append_whole(next, coded);
      summary.mode = BlockMode::whole;
      return summary;
    case BlockChoice::afresh:
      scratch_->append_afresh(kernels, next, type, coded);
      summary.mode = BlockMode::afresh;
      return summary;
    case BlockChoice::automatic:
    case BlockChoice::classed:
    case BlockChoice::unknown_bytes:
      break;
  }

  std::size_t smallest = 1 + next.size();
  std::size_t candidate_at = begin;
  const auto keep_if_smaller = [&](BlockMode mode) {
    const std::size_t size_bytes = coded.size() - candidate_at;
    if (size_bytes < smallest) {
      coded.erase(coded.begin() + static_cast<std::ptrdiff_t>(begin),
                  coded.begin() + static_cast<std::ptrdiff_t>(candidate_at));
      summary.mode = mode;
      smallest = size_bytes;
    } else {
      coded.resize(candidate_at);
    }
    candidate_at = coded.size();
  };
  // Both are tried only where either may win. Above a half the gaps of sparse take as much as the zeros of dense. Dense
  // takes nearly a bit per element whatever changed, and earns that back at a third, or earlier where steps are so
  // large that sparse writes them out.
  bool large_steps = true;
  if (summary.changes <= count / 2) {
    const std::size_t size_bytes = scratch_->append_sparse(summary.changes, type, coded);
    large_steps = size_bytes > sparse_least_bytes(summary.changes) + summary.changes;
    keep_if_smaller(BlockMode::sparse);
  }
  // From zeros on, steps say what afresh says. Of bytes and integers both make about the same, and dense is what older
  // readers know.
  const bool is_afresh =
      is_from_zeros && summary.changes > count / 2 && type.width_bytes > 1 && type.kind == ElementKind::floating;
  if ((!is_afresh || count < k_many_elements) &&
      (summary.changes > count / 3 || (large_steps && summary.changes > count / 8))) {
    scratch_->append_dense(kernels, base, next, type, coded);
    keep_if_smaller(BlockMode::dense);
  }
  // Where steps are small nothing else comes near them.
  if (is_afresh || (!is_from_zeros && summary.changes > count / 2 && smallest > next.size() / 8 * 5)) {
    scratch_->append_afresh(kernels, next, type, coded);
    keep_if_smaller(BlockMode::afresh);
  }
  if (choice_ == BlockChoice::unknown_bytes) {
    scratch_->append_searched(next, coded);
    keep_if_smaller(BlockMode::whole);
  }
  if (summary.mode == BlockMode::same) {
    Scratch::append_whole(next, coded);
    summary.mode = BlockMode::whole;
  }
  return summary;
}

}  // namespace wdelta
