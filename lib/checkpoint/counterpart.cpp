// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <optional>

namespace wdelta {

namespace {

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// The run of digits at `place`; empty where there is none.
std::string_view number_at(std::string_view path, std::size_t place) {
  std::size_t end = place;
  while (end < path.size() && is_digit(path[end])) ++end;
  return path.substr(place, end - place);
}

// Counts numbers that are equal; nothing where anything but numbers differs. Takes no memory: of each new file all
// others may be asked.
std::optional<std::size_t> equal_numbers_of(std::string_view a, std::string_view b) {
  std::size_t equal = 0;
  std::size_t in_a = 0;
  std::size_t in_b = 0;
  while (in_a < a.size() && in_b < b.size()) {
    const std::string_view number = number_at(a, in_a);
    const std::string_view other = number_at(b, in_b);
    if (number.empty() != other.empty()) return std::nullopt;
    if (number.empty()) {
      if (a[in_a++] != b[in_b++]) return std::nullopt;
    } else {
      equal += number == other ? 1 : 0;
      in_a += number.size();
      in_b += other.size();
    }
  }
  return in_a == a.size() && in_b == b.size() ? std::optional(equal) : std::nullopt;
}

}  // namespace

PlaceLikeness likeness_of_places(std::string_view before, std::string_view path) {
  PlaceLikeness likeness;
  likeness.same = before == path;
  const std::optional<std::size_t> equal_numbers = equal_numbers_of(before, path);
  likeness.same_but_numbers = equal_numbers.has_value();
  likeness.equal_numbers = equal_numbers.value_or(0);
  const auto differs = std::mismatch(before.rbegin(), before.rend(), path.rbegin(), path.rend()).first;
  likeness.common_end = static_cast<std::size_t>(differs - before.rbegin());
  return likeness;
}

}  // namespace wdelta
