// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace wdelta {

/// How likely it is, from the names alone, that the file at `before` is the previous version of the one at `path`.
struct PlaceLikeness {
  bool same = false;              ///< the same place
  bool same_but_numbers = false;  ///< as global_step99/model.pt and global_step100/model.pt are
  std::size_t equal_numbers = 0;  ///< then, numbers that are equal: the rank where the step differs
  std::size_t common_end = 0;     ///< characters that both end with

  auto operator<=>(const PlaceLikeness&) const = default;
};

PlaceLikeness likeness_of_places(std::string_view before, std::string_view path);

}  // namespace wdelta
