// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/recipe.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace wdelta {

/// The objects that a store lists, to tell recipes that can be followed from those whose object is lost.
class StoredObjects {
 public:
  /// Whatever a book names that was read before is listed, unless it is lost.
  explicit StoredObjects(const Store& store);

  /// Whether the object is there, and as long as the recipe needs. Of a reference nothing is known: true.
  bool have(const Recipe& recipe) const;

 private:
  std::map<std::string, std::uint64_t> sizes_bytes_;  // by name
};

}  // namespace wdelta
