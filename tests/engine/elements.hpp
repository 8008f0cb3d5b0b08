// SPDX-License-Identifier: Apache-2.0
// Elements and changes for the tests of this room, and steps as the man page defines them, one by one.
#pragma once

#include "engine/element.hpp"
#include "testing/random.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace wdelta::testing {

inline constexpr std::array<ElementType, 8> k_element_types = {{{1, ElementKind::integer},
                                                                {1, ElementKind::floating},
                                                                {2, ElementKind::integer},
                                                                {2, ElementKind::floating},
                                                                {4, ElementKind::integer},
                                                                {4, ElementKind::floating},
                                                                {8, ElementKind::integer},
                                                                {8, ElementKind::floating}}};
/// Those that have blocks with classes.
inline constexpr std::span<const ElementType> k_classed_types(k_element_types.data(), 6);
inline constexpr ElementType k_bf16 = {2, ElementKind::floating};

inline std::uint64_t get(const std::uint8_t* elements, std::size_t i, std::uint8_t width_bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, elements + i * width_bytes, width_bytes);
  return value;
}

inline void put(std::uint8_t* elements, std::size_t i, std::uint8_t width_bytes, std::uint64_t value) {
  std::memcpy(elements + i * width_bytes, &value, width_bytes);
}

inline std::uint64_t all_bits(ElementType type) { return ~std::uint64_t{0} >> (64 - 8 * type.width_bytes); }
inline std::uint64_t highest_bit(ElementType type) { return std::uint64_t{1} << (8 * type.width_bytes - 1); }

inline std::uint64_t order(std::uint64_t bits, ElementType type) {
  const bool inverted = type.kind == ElementKind::floating && (bits & highest_bit(type)) != 0;
  return inverted ? bits ^ (all_bits(type) >> 1) : bits;
}

/// wdelta-delta.5, "Steps".
inline std::uint64_t step_by_the_page(std::uint64_t base, std::uint64_t next, ElementType type) {
  const std::uint64_t moved = (order(next, type) - order(base, type)) & all_bits(type);
  const std::uint64_t sign = (moved & highest_bit(type)) != 0 ? all_bits(type) : 0;
  return ((moved << 1) ^ sign) & all_bits(type);
}

/// The element that lies `step` from `base`.
inline std::uint64_t element_by_the_page(std::uint64_t base, std::uint64_t step, ElementType type) {
  const std::uint64_t moved = (step & 1) != 0 ? ~(step >> 1) : step >> 1;
  return order((order(base, type) + moved) & all_bits(type), type);
}

/// `base` with each element changed with this probability, mostly by small steps, some by any.
inline std::vector<std::uint8_t> changed(const std::vector<std::uint8_t>& base, ElementType type, double density,
                                         std::mt19937_64& random) {
  std::vector<std::uint8_t> next = base;
  std::bernoulli_distribution changes(density);
  std::geometric_distribution<std::uint64_t> small(0.4);
  for (std::size_t i = 0; i < base.size() / type.width_bytes; ++i) {
    if (!changes(random)) continue;
    const std::uint64_t step = random() % 8 == 0 ? random() & all_bits(type) : 1 + small(random) % 254;
    put(next.data(), i, type.width_bytes, element_by_the_page(get(base.data(), i, type.width_bytes), step, type));
  }
  return next;
}

/// Elements as weights are: most contexts rare, a few next to each other holding nearly all.
inline std::vector<std::uint8_t> weights(std::mt19937_64& random, std::size_t count, ElementType type) {
  std::vector<std::uint8_t> bytes = random_bytes(random, count * type.width_bytes);
  std::geometric_distribution<std::uint64_t> below(0.3);
  const auto context_shift = static_cast<unsigned>(8 * type.width_bytes - 9);
  for (std::size_t i = 0; i < count && type.width_bytes > 1; ++i) {
    const std::uint64_t exponent = 122 - std::min<std::uint64_t>(below(random), 100);
    const std::uint64_t kept = get(bytes.data(), i, type.width_bytes) & ~(std::uint64_t{255} << context_shift);
    put(bytes.data(), i, type.width_bytes, kept | exponent << context_shift);
  }
  return bytes;
}

}  // namespace wdelta::testing
