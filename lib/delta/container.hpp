// SPDX-License-Identifier: Apache-2.0
// What writer and reader of a delta share: wdelta-delta(5), "The container" and "Metadata".
#pragma once

#include "base/digest.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace wdelta {

inline constexpr std::string_view k_delta_format = "wdelta-delta";
inline constexpr std::string_view k_delta_version = "4";
/// Encodings of an entry that the block index names: one tensor, in groups as engine/group.hpp makes them, or several.
inline constexpr std::uint8_t k_tensor_encoding = 1;
inline constexpr std::uint8_t k_bundle_encoding = 2;
/// What the index says of a group's strips and its reference, in one number.
inline constexpr unsigned k_strip_bits = 3;
/// What a block index, the names of all bundles together that it tells, or a result's header take at most that come in
/// a frame of so many bytes. A reader's memory is a few dozen times as large, and a frame of some thousand bytes could
/// hold as much as any.
constexpr std::uint64_t most_framed_bytes(std::size_t frame_bytes) {
  constexpr std::uint64_t k_most = 100'000'000;
  constexpr std::uint64_t k_beside_frame = std::uint64_t{16} << 20;
  return std::min(k_most, k_beside_frame + 256 * std::min<std::uint64_t>(k_most, frame_bytes));
}
/// Computes the digest of a delta's front, whose "digest" must be 64 zeros, and writes it there.
Digest seal_front(std::span<std::uint8_t> front);
/// Whether a front says `digest` of itself and is right about that.
bool is_sealed(std::span<const std::uint8_t> front, const Digest& digest);

}  // namespace wdelta
