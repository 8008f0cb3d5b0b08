// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace wdelta {

namespace {

bool is_digit(char character) { return character >= '0' && character <= '9'; }

struct Parts {
  std::string text;  // the path with '0' for every run of digits
  std::vector<std::string> numbers;
};

Parts parts_of(std::string_view path) {
  Parts parts;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_digit(path[i])) {
      parts.text += path[i];
      continue;
    }
    if (i == 0 || !is_digit(path[i - 1])) {
      parts.text += '0';
      parts.numbers.emplace_back();
    }
    parts.numbers.back() += path[i];
  }
  return parts;
}

}  // namespace

PlaceLikeness likeness_of_places(std::string_view before, std::string_view path) {
  PlaceLikeness likeness;
  likeness.same = before == path;
  const Parts a = parts_of(before);
  const Parts b = parts_of(path);
  likeness.same_but_numbers = a.text == b.text;
  for (std::size_t i = 0; likeness.same_but_numbers && i < a.numbers.size(); ++i)
    likeness.equal_numbers += a.numbers[i] == b.numbers[i] ? 1 : 0;
  const auto differs = std::mismatch(before.rbegin(), before.rend(), path.rbegin(), path.rend()).first;
  likeness.common_end = static_cast<std::size_t>(differs - before.rbegin());
  return likeness;
}

}  // namespace wdelta
