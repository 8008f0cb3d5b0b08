// SPDX-License-Identifier: Apache-2.0
#include "repo/recipe.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {
constexpr const char* k_recipes_format = "wdelta-recipes";
constexpr std::string_view k_weights_suffix = ".safetensors";

Recipe recipe_from(const ParsedJson& json, const std::string& object) {
  Recipe recipe;
  recipe.digest = digest_member(json, "digest", object);
  recipe.size_bytes = size_member(json, "size", object);
  recipe.bytes = {string_member(json, "object", object), size_member(json, "offset", object),
                  size_member(json, "length", object)};
  if (!object_digest(recipe.bytes.object)) {
    throw Error(Fault::corrupt, object, fmt::format("object {:?} has no name of an object", recipe.bytes.object));
  }
  recipe.is_delta = json.contains("base");
  if (recipe.is_delta) {
    for (const ParsedJson& value : array_member(json, "base", object)) {
      const auto digest = value.is_string() ? Digest::parse(value.get<std::string>()) : std::nullopt;
      if (!digest) throw Error(Fault::corrupt, object, "\"base\" holds something that is no digest");
      recipe.base.push_back(*digest);
    }
  } else if (recipe.bytes.length != recipe.size_bytes) {
    throw Error(Fault::corrupt, object,
                fmt::format("recipe for {} has not the size it should make", recipe.digest.hex()));
  }
  return recipe;
}

}  // namespace

std::string object_key(const std::string& object) { return "objects/" + object.substr(0, 2) + "/" + object; }

std::optional<Digest> object_digest(std::string_view object) {
  if (object.ends_with(k_weights_suffix)) object.remove_suffix(k_weights_suffix.size());
  return Digest::parse(object);
}

std::string to_text(const RecipeBook& book) {
  Json recipes = Json::array();
  for (const Recipe& recipe : book.recipes) {
    Json json = {{"digest", recipe.digest.hex()},
                 {"size", recipe.size_bytes},
                 {"object", recipe.bytes.object},
                 {"offset", recipe.bytes.offset},
                 {"length", recipe.bytes.length}};
    if (recipe.is_delta) {
      json["base"] = Json::array();
      for (const Digest& digest : recipe.base) json["base"].push_back(digest.hex());
    }
    recipes.push_back(std::move(json));
  }
  Json json = {{"format", k_recipes_format}, {"version", 1}, {"recipes", recipes}};
  if (book.squashed) json["squashed"] = *book.squashed;
  return json.dump() + "\n";
}

RecipeBook book_from(std::string_view text, const std::string& object) {
  const ParsedJson json = parse_json(text, object);
  require_format(json, k_recipes_format, object);
  RecipeBook book;
  for (const ParsedJson& value : array_member(json, "recipes", object))
    book.recipes.push_back(recipe_from(value, object));
  if (json.contains("squashed")) book.squashed = string_member(json, "squashed", object);
  return book;
}

void RecipeGraph::add(const std::vector<Recipe>& book) { recipes_.insert(recipes_.end(), book.begin(), book.end()); }

// Knuth's generalisation of Dijkstra's algorithm to hyperedges: digests are settled in the order of their cost, and a
// recipe comes into play once all its bases are settled.
void RecipeGraph::settle() {
  struct Candidate {
    std::uint64_t cost_bytes;
    std::uint64_t chain_length;
    Digest digest;
    std::size_t recipe;
    bool operator>(const Candidate& other) const {
      return std::pair(cost_bytes, chain_length) > std::pair(other.cost_bytes, other.chain_length);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  std::vector<std::size_t> missing_bases;
  std::map<Digest, std::vector<std::size_t>> used_by;
  const auto add_costs = [](std::uint64_t a, std::uint64_t b) {
    std::uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
  };
  const auto offer = [&](std::size_t index) {
    const Recipe& recipe = recipes_[index];
    Candidate candidate{recipe.bytes.length, 0, recipe.digest, index};
    for (const Digest& base : recipe.base) {
      const Way& way = ways_.at(base);
      candidate.cost_bytes = add_costs(candidate.cost_bytes, way.cost_bytes);
      candidate.chain_length = std::max(candidate.chain_length, way.chain_length + 1);
    }
    queue.push(candidate);
  };
  ways_.clear();
  for (std::size_t i = 0; i < recipes_.size(); ++i) {
    missing_bases.push_back(recipes_[i].base.size());
    for (const Digest& base : recipes_[i].base) used_by[base].push_back(i);
    if (recipes_[i].base.empty()) offer(i);
  }
  for (const Digest& digest : at_hand_) queue.push({0, 0, digest, k_at_hand});
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    if (!ways_.emplace(next.digest, Way{next.cost_bytes, next.chain_length, next.recipe}).second) continue;
    for (const std::size_t i : used_by[next.digest]) {
      if (--missing_bases[i] == 0) offer(i);
    }
  }
}

const Recipe* RecipeGraph::best(const Digest& digest) const {
  const auto found = ways_.find(digest);
  return found == ways_.end() || found->second.recipe == k_at_hand ? nullptr : &recipes_[found->second.recipe];
}

std::vector<Digest> RecipeGraph::at_hand_for(const Digest& digest) const {
  std::map<Digest, Recipe> recipes;
  collect(digest, recipes);
  std::set<Digest> found;
  const auto add = [&](const Digest& each) {
    const auto way = ways_.find(each);
    if (way != ways_.end() && way->second.recipe == k_at_hand) found.insert(each);
  };
  add(digest);
  for (const auto& [made, recipe] : recipes) std::ranges::for_each(recipe.base, add);
  return {found.begin(), found.end()};
}

std::vector<Recipe> RecipeGraph::book_for(const std::vector<Digest>& files, std::size_t generations) const {
  std::map<Digest, std::vector<const Recipe*>> ways_to;
  for (const Recipe& recipe : recipes_) ways_to[recipe.digest].push_back(&recipe);
  std::map<Digest, Recipe> best_ones;
  for (const Digest& file : files) collect(file, best_ones);
  std::vector<Recipe> book;
  std::set<std::tuple<Digest, std::string, std::uint64_t>> in_book;
  const auto add_once = [&](const Recipe& recipe) {
    if (in_book.emplace(recipe.digest, recipe.bytes.object, recipe.bytes.offset).second) book.push_back(recipe);
  };
  for (const auto& [digest, recipe] : best_ones) add_once(recipe);

  std::set<Digest> seen;
  std::vector<Digest> generation = files;
  for (std::size_t back = 0; back <= generations && !generation.empty(); ++back) {
    std::vector<Digest> before;
    for (const Digest& digest : generation) {
      if (!seen.insert(digest).second) continue;
      for (const Recipe* recipe : ways_to[digest]) {
        add_once(*recipe);
        before.insert(before.end(), recipe->base.begin(), recipe->base.end());
      }
    }
    generation = std::move(before);
  }
  return book;
}

void RecipeGraph::collect(const Digest& digest, std::map<Digest, Recipe>& into) const {
  std::vector<Digest> open = {digest};
  while (!open.empty()) {
    const Recipe* recipe = best(open.back());
    open.pop_back();
    if (recipe == nullptr || !into.emplace(recipe->digest, *recipe).second) continue;
    open.insert(open.end(), recipe->base.begin(), recipe->base.end());
  }
}

}  // namespace wdelta
