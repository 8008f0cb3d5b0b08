// SPDX-License-Identifier: Apache-2.0
// Blocks coded without regard to a base (wdelta-delta.5, "Afresh blocks"): encoder and decoder side by side.
#pragma once

#include "engine/element.hpp"
#include "engine/frame.hpp"
#include "engine/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Numbers of `bits` bits (1 to 8), a byte each, as a string of bits: what they take.
constexpr std::size_t packed_bytes(std::size_t count, unsigned bits) { return (count * bits + 7) / 8; }
/// Appends the string of bits.
void append_packed(std::span<const std::uint8_t> numbers, unsigned bits, std::vector<std::uint8_t>& packed);
/// The inverse; `packed` has packed_bytes(). Returns false when bits are set behind the last number.
bool read_packed(std::span<const std::uint8_t> packed, unsigned bits, std::span<std::uint8_t> numbers);

/// Owns scratch memory; one per thread.
class AfreshEncoder {
 public:
  AfreshEncoder();

  /// Appends what comes behind the mode. `kernels` are those for `type`.
  void append(const BlockKernels& kernels, std::span<const std::uint8_t> next, ElementType type,
              std::vector<std::uint8_t>& coded);

 private:
  void append_plane(std::span<const std::uint8_t> numbers, unsigned bits, std::vector<std::uint8_t>& coded);

  std::unique_ptr<std::uint8_t[]> zeros_;  // as wide as was needed so far
  std::size_t zeros_bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> planes_;
  std::unique_ptr<std::uint8_t[]> symbols_;
  std::unique_ptr<std::uint8_t[]> rests_;
  std::unique_ptr<std::uint8_t[]> frame_;
  FrameWriter symbol_frames_{FrameContent::symbols};
  FrameWriter run_frames_{FrameContent::runs};
};

/// Owns scratch memory; one per thread.
class AfreshDecoder {
 public:
  AfreshDecoder();

  /// `coded` is the block behind its mode. See BlockDecoder::apply().
  void apply(const BlockKernels& kernels, std::span<const std::uint8_t> coded, ElementType type,
             std::span<std::uint8_t> elements);

 private:
  std::unique_ptr<std::uint8_t[]> planes_;
  std::unique_ptr<std::uint8_t[]> symbols_;
  std::unique_ptr<std::uint8_t[]> rests_;
  FrameReader frames_;
};

}  // namespace wdelta
