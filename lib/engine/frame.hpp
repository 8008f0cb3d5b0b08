// SPDX-License-Identifier: Apache-2.0
// One zstd frame with its content size in the frame header (RFC 8878): writer and reader side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace wdelta {

/// Whether this build has zstd. All have, but one of the engine alone made without it: there write() finds that nothing
/// fits, and what reads throws Error(unsupported).
bool has_frames();

/// What a frame's content is like, and so how far it pays to look for repeats: symbols have none, in runs a quick look
/// finds all that is there, bytes may be anything.
enum class FrameContent { symbols, runs, bytes };

/// Fewer bytes than this never shrink: a frame's own headers take about a dozen.
inline constexpr std::size_t k_least_frame_content = 32;

/// Of bytes that are no text: what is mostly zeros asks for less than the bit that a Huffman code takes per byte, so
/// that runs pay. What is nothing else is a run for zstd anyway.
constexpr bool has_runs_of_zeros(std::size_t zeros, std::size_t size_bytes) {
  return zeros < size_bytes && zeros > size_bytes / 4 * 3;
}

/// Writes frames; one per thread.
class FrameWriter {
 public:
  explicit FrameWriter(FrameContent content);
  ~FrameWriter();
  FrameWriter(FrameWriter&&) noexcept;

  /// Compresses `content` into `frame`. Ends a zstd block at each of `cuts` (offsets, ascending), so that parts that
  /// look different get their own tables. Returns the frame's size, or 0 where it does not fit into `frame`.
  std::size_t write(std::span<const std::uint8_t> content, std::span<const std::size_t> cuts,
                    std::span<std::uint8_t> frame);

 private:
  struct Release {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Release> context_;
};

/// Reads frames; one per thread.
class FrameReader {
 public:
  FrameReader();
  ~FrameReader();
  FrameReader(FrameReader&&) noexcept;

  /// The content size that the header of `frame` claims. Throws Error(corrupt) unless `frame` is exactly one frame
  /// that says so.
  static std::uint64_t content_bytes(std::span<const std::uint8_t> frame);
  /// What a frame holds. Throws as content_bytes() does, and where that is more than `most_bytes`, before any of it is
  /// allocated.
  static std::vector<std::uint8_t> content(std::span<const std::uint8_t> frame, std::uint64_t most_bytes);
  /// Decompresses a frame whose content_bytes() is the size of `content`. Throws Error(corrupt).
  void read(std::span<const std::uint8_t> frame, std::span<std::uint8_t> content);

 private:
  struct Release {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Release> context_;
};

}  // namespace wdelta
