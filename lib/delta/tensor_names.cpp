// SPDX-License-Identifier: Apache-2.0
#include "delta/tensor_names.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

namespace {

/// How far numbers in names are looked for: so many layers may be inserted or dropped.
constexpr std::int64_t k_largest_shift = 8;

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// Where the numbers in a name are, as (begin, end).
std::vector<std::pair<std::size_t, std::size_t>> numbers_in(const std::string& name) {
  std::vector<std::pair<std::size_t, std::size_t>> numbers;
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    if (!is_digit(name[begin])) continue;
    std::size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    numbers.emplace_back(begin, end);
    begin = end;
  }
  return numbers;
}

}  // namespace

std::vector<std::string> first_numbers_of(const std::string& name) {
  constexpr std::size_t k_most_numbers = 3;
  std::vector<std::string> all;
  for (const auto& [begin, end] : numbers_in(name)) {
    if (all.size() == k_most_numbers) break;
    all.push_back((all.empty() ? "" : all.back()) + name.substr(begin, end - begin) + ",");
  }
  return all;
}

std::vector<NumberShift> shifts_of(const std::string& name, const std::optional<NumberShift>& last) {
  std::vector<NumberShift> shifts;
  if (last) shifts.push_back(*last);
  const std::size_t count = std::min<std::size_t>(numbers_in(name).size(), 4);
  for (std::int64_t by = 1; by <= k_largest_shift; ++by) {
    for (std::size_t number = 0; number < count; ++number) {
      shifts.push_back({number, by});
      shifts.push_back({number, -by});
    }
  }
  return shifts;
}

std::optional<std::string> shifted(const std::string& name, const NumberShift& shift) {
  constexpr std::size_t k_most_digits = 9;
  const auto numbers = numbers_in(name);
  if (shift.number >= numbers.size()) return std::nullopt;
  const auto [begin, end] = numbers[shift.number];
  if (end - begin > k_most_digits) return std::nullopt;
  const std::int64_t value = std::stoll(name.substr(begin, end - begin)) + shift.by;
  if (value < 0) return std::nullopt;
  return name.substr(0, begin) + std::to_string(value) + name.substr(end);
}

std::size_t common_end_of(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

bool ends_before(const std::string& a, const std::string& b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend(), [](char x, char y) {
    return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
  });
}

}  // namespace wdelta
