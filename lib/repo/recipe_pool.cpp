// SPDX-License-Identifier: Apache-2.0
#include "repo/recipe_pool.hpp"

#include <utility>

namespace wdelta {

std::vector<const Recipe*> RecipePool::keep(std::vector<Recipe> recipes) {
  std::vector<const Recipe*> kept;
  kept.reserve(recipes.size());
  const std::lock_guard lock(mutex_);
  for (Recipe& recipe : recipes) kept.push_back(&*recipes_.insert(std::move(recipe)).first);
  return kept;
}

}  // namespace wdelta
