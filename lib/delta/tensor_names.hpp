// SPDX-License-Identifier: Apache-2.0
// What the names of tensors say of which is which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// The first numbers of a name, one, two and so on, as of a layer and of an expert in it, whatever stands around them.
std::vector<std::string> first_numbers_of(const std::string& name);

/// One of the numbers in a name, and how much larger it was before.
struct NumberShift {
  std::size_t number = 0;
  std::int64_t by = 0;
};

/// Those worth a look, as where layers were inserted or dropped: `last` first, where there is one, then the smallest.
std::vector<NumberShift> shifts_of(const std::string& name, const std::optional<NumberShift>& last);
/// The name with one number changed; nothing where it has no such number, or that would be below 0.
std::optional<std::string> shifted(const std::string& name, const NumberShift& shift);

/// How many characters both end with.
std::size_t common_end_of(const std::string& a, const std::string& b);
/// The order of names that are read from behind: those that end alike lie together.
bool ends_before(const std::string& a, const std::string& b);

}  // namespace wdelta
