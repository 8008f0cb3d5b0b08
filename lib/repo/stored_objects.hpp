// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/recipe.hpp"
#include "repo/repository.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

namespace wdelta {

/// The objects that a store lists, to tell recipes that can be followed from those whose object is lost.
class StoredObjects {
 public:
  /// Whatever a book names that was read before is listed, unless it is lost.
  explicit StoredObjects(const Store& store);
  /// Those of a listing, which may show other keys as well.
  explicit StoredObjects(std::span<const Store::Listed> listing) { add(listing); }
  /// Those below these prefixes alone.
  StoredObjects(const Store& store, std::span<const std::string> prefixes, const std::stop_token& stop);

  /// Whether the object is there, and as long as the recipe needs. Of a reference nothing is known: true.
  bool have(const Recipe& recipe) const;

 private:
  void add(std::span<const Store::Listed> listing);

  std::map<std::string, std::uint64_t> sizes_bytes_;  // by name
};

/// The key of an object that the best way to a file of `commit` takes and that is lost, if one shows. Looks at a few of
/// them, and at others for another commit: at all, a store with many would be asked for very long. `graph` is settled.
std::optional<std::string> find_lost(const Store& store, const Commit& commit, const RecipeGraph& graph,
                                     const std::stop_token& stop);

}  // namespace wdelta
