// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace wdelta {

/// How the bits of an element are counted when a change is written as a step (wdelta-delta.5, "Steps").
enum class ElementKind : std::uint8_t {
  integer,   ///< two's complement: neighbours differ by one
  floating,  ///< sign and magnitude: neighbouring numbers differ by one, across zero too
};

/// The part of a dtype that comparing and patching need.
struct ElementType {
  std::uint8_t width_bytes = 1;  ///< 1, 2, 4 or 8
  ElementKind kind = ElementKind::integer;

  bool operator==(const ElementType&) const = default;
};

/// A block is this many consecutive elements of one tensor; the last block of a tensor may be shorter.
inline constexpr std::uint32_t k_block_elements = 65536;

/// Calls visit() with a number of 1, 2 or 4 bytes: those that have classes. A lambda of the caller's makes each copy of
/// this its own, in kernel files too.
template <class Visit>
auto with_narrow_width(std::uint8_t width_bytes, Visit visit) {
  if (width_bytes == 1) return visit(std::uint8_t{});
  if (width_bytes == 2) return visit(std::uint16_t{});
  return visit(std::uint32_t{});
}

}  // namespace wdelta
