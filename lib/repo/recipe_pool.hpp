// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/recipe.hpp"

#include <mutex>
#include <set>
#include <vector>

namespace wdelta {

/// Recipes, each kept once however many books have it: the book of a commit repeats those of the commits before it, and
/// all books of a history side by side would be that many times as large.
class RecipePool {
 public:
  /// The kept ones that equal these, which stay where they are as long as the pool. May be called from several threads.
  std::vector<const Recipe*> keep(std::vector<Recipe> recipes);

 private:
  std::mutex mutex_;
  std::set<Recipe> recipes_;  // no hash of what others write
};

}  // namespace wdelta
