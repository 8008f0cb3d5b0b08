// SPDX-License-Identifier: Apache-2.0
// book_from on any bytes, those that begin like a frame taken for one, and the graph of what it takes.
#include "base/error.hpp"
#include "repo/recipe.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  try {
    const std::string input(reinterpret_cast<const char*>(bytes), size_bytes);
    const bool is_frame = input.starts_with("\x28\xb5\x2f\xfd");
    const RecipeBook parsed = book_from(BookBytes{input, is_frame}, "input");
    const std::vector<Recipe>& book = parsed.recipes;
    const RecipeBook again = book_from(to_text(parsed), "again");
    if (again.recipes != book || again.squashed != parsed.squashed) std::abort();
    const RecipeGraph graph = RecipeGraph::of(book);
    std::map<Digest, const Recipe*> needed;
    for (const Recipe& recipe : book) {
      if (!graph.can_make(recipe.digest)) continue;
      graph.collect(recipe.digest, needed);
      // Nothing is dearer than any one way to have it whole.
      if (graph.cost_together({recipe.digest}) > graph.cost(recipe.digest)) std::abort();
      if (!recipe.is_delta && graph.cost(recipe.digest) > recipe.bytes.length) std::abort();
      if (recipe.reference.has_value() != recipe.bytes.object.empty()) std::abort();
    }
    for (const auto& [digest, recipe] : needed) {
      for (const Digest& base : recipe->base) {
        if (!needed.contains(base)) std::abort();
      }
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
