// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/counterpart.hpp"

#include <algorithm>

namespace wdelta {

namespace {

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// `path` with '0' for every run of digits.
std::string without_numbers(std::string_view path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_digit(path[i])) {
      text += path[i];
    } else if (i == 0 || !is_digit(path[i - 1])) {
      text += '0';
    }
  }
  return text;
}

}  // namespace

PlaceLikeness likeness_of_places(std::string_view before, std::string_view path) {
  PlaceLikeness likeness;
  likeness.same = before == path;
  likeness.same_but_numbers = without_numbers(before) == without_numbers(path);
  const auto differs = std::mismatch(before.rbegin(), before.rend(), path.rbegin(), path.rend()).first;
  likeness.common_end = static_cast<std::size_t>(differs - before.rbegin());
  return likeness;
}

}  // namespace wdelta
