// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace wdelta::make_run {

/// Every number of a run is drawn from its place (seed, tensor, row, element, step), never from a generator's state:
/// any part of any step can then be made alone, by any thread, and comes out the same.

/// A bijection of 64-bit words in which each input bit moves about half of the output bits.
constexpr std::uint64_t scramble(std::uint64_t word) {
  word = (word ^ (word >> 32)) * 0xd6e8feb86659fd93u;
  word = (word ^ (word >> 29)) * 0x9e3779b97f4a7c15u;
  return word ^ (word >> 32);
}

/// The key of part `index` of what `key` names.
constexpr std::uint64_t draw(std::uint64_t key, std::uint64_t index) {
  return scramble(key + scramble(index + 0x9e3779b97f4a7c15u));
}

/// The key of the part called `name`.
constexpr std::uint64_t draw(std::uint64_t key, std::string_view name) {
  for (const char letter : name) key = scramble(key ^ static_cast<unsigned char>(letter)) + 1;
  return scramble(key);
}

/// A number in [low, high), from the top bits of `key`.
constexpr float between(std::uint64_t key, float low, float high) {
  return low + (high - low) * (static_cast<float>(key >> 40) * 0x1p-24f);
}

}  // namespace wdelta::make_run
