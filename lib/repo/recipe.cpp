// SPDX-License-Identifier: Apache-2.0
#include "repo/recipe.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/path.hpp"
#include "engine/frame.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <queue>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {
constexpr const char* k_recipes_format = "wdelta-recipes";
constexpr std::string_view k_weights_suffix = ".safetensors";
// Of a book with references, which version 1 does not know; one without is written as version 1, for older readers.
constexpr std::uint64_t k_version_of_references = 2;

ModelReference reference_from(const ParsedJson& json, const std::string& object) {
  ModelReference reference{{string_member(json, "model", object), string_member(json, "commit", object)},
                           string_member(json, "path", object),
                           string_member(json, "etag", object)};
  // All of it goes into URLs.
  const std::string& model = reference.at.model;
  const std::size_t slash = model.find('/');
  if (slash == std::string::npos || why_not_a_hub_name(model.substr(0, slash)) != nullptr ||
      why_not_a_hub_name(model.substr(slash + 1)) != nullptr) {
    throw Error(Fault::corrupt, object, fmt::format("{:?} is no name of a model", model));
  }
  if (reference.at.commit.size() != 40 || !is_model_etag(reference.at.commit))
    throw Error(Fault::corrupt, object, fmt::format("commit {:?} is not 40 hexadecimal digits", reference.at.commit));
  require_place(reference.path, object);
  if (!is_model_etag(reference.etag))
    throw Error(Fault::corrupt, object, fmt::format("etag {:?} is not 40 or 64 hexadecimal digits", reference.etag));
  if (json.contains("object") || json.contains("base"))
    throw Error(Fault::corrupt, object, "a recipe names both a model and an object");
  return reference;
}

Recipe recipe_from(const ParsedJson& json, const std::string& object) {
  Recipe recipe;
  recipe.digest = digest_member(json, "digest", object);
  recipe.size_bytes = size_member(json, "size", object);
  if (json.contains("model")) {
    recipe.reference = reference_from(json, object);
    recipe.bytes.length = recipe.size_bytes;
    return recipe;
  }
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

std::uint64_t add_costs(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace

std::string object_key(const std::string& object) { return "objects/" + object.substr(0, 2) + "/" + object; }

std::optional<Digest> object_digest(std::string_view object) {
  if (object.ends_with(k_weights_suffix)) object.remove_suffix(k_weights_suffix.size());
  return Digest::parse(object);
}

bool is_object_key(const std::string& key) {
  const std::string name = key.substr(key.rfind('/') + 1);
  return object_digest(name).has_value() && object_key(name) == key;
}

std::string to_text(const RecipeBook& book) {
  std::uint64_t version = 1;
  Json recipes = Json::array();
  for (const Recipe& recipe : book.recipes) {
    Json json = {{"digest", recipe.digest.hex()}, {"size", recipe.size_bytes}};
    if (recipe.reference) {
      version = k_version_of_references;
      json["model"] = recipe.reference->at.model;
      json["commit"] = recipe.reference->at.commit;
      json["path"] = recipe.reference->path;
      json["etag"] = recipe.reference->etag;
      recipes.push_back(std::move(json));
      continue;
    }
    json["object"] = recipe.bytes.object;
    json["offset"] = recipe.bytes.offset;
    json["length"] = recipe.bytes.length;
    if (recipe.is_delta) {
      json["base"] = Json::array();
      for (const Digest& digest : recipe.base) json["base"].push_back(digest.hex());
    }
    recipes.push_back(std::move(json));
  }
  Json json = {{"format", k_recipes_format}, {"version", version}, {"recipes", recipes}};
  if (book.squashed) json["squashed"] = *book.squashed;
  return json.dump() + "\n";
}

RecipeBook book_from(std::string_view text, const std::string& object) {
  RecipeBook book;
  std::optional<Error> wrong;  // comes behind what the version says: a newer one may have other recipes
  // A book of a large checkpoint has a hundred thousand, each many times as large as a document as it is here.
  const ParsedJson json = parse_elements(text, object, "recipes", [&](ParsedJson&& value) {
    if (wrong) return;
    try {
      book.recipes.push_back(recipe_from(value, object));
    } catch (const Error& error) {
      wrong = error;
    }
  });
  const std::uint64_t version = require_format(json, k_recipes_format, object, k_version_of_references);
  array_member(json, "recipes", object);
  if (wrong) throw Error(*wrong);
  if (version < k_version_of_references &&
      std::ranges::any_of(book.recipes, [](const Recipe& recipe) { return recipe.reference.has_value(); }))
    throw Error(Fault::corrupt, object, fmt::format("a recipe names a model, and version {} has none such", version));
  if (json.contains("squashed")) book.squashed = string_member(json, "squashed", object);
  return book;
}

namespace {

constexpr std::size_t k_longest_plain_book = std::size_t{256} << 10;
constexpr std::uint64_t k_longest_book = std::uint64_t{1} << 30;

// What a frame of that size may hold: the digests alone leave a book no smaller than a twelfth.
std::uint64_t most_text_bytes(std::uint64_t frame_bytes) { return std::min(k_longest_book, 32 * frame_bytes); }

std::span<const std::uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::vector<std::uint8_t> content_of_frame(std::string_view frame, const std::string& object) {
  try {
    return FrameReader::content(as_bytes(frame), most_text_bytes(frame.size()));
  } catch (const Error& error) {
    throw Error(error.fault(), object, error.what(), error.hint());
  }
}

}  // namespace

Digest BookBytes::digest() const { return blake3(bytes); }

BookBytes bytes_of(const RecipeBook& book) {
  BookBytes plain{to_text(book)};
  if (plain.bytes.size() <= k_longest_plain_book) return plain;
  std::string frame(plain.bytes.size(), '\0');
  frame.resize(FrameWriter(FrameContent::bytes)
                   .write(as_bytes(plain.bytes), {}, {reinterpret_cast<std::uint8_t*>(frame.data()), frame.size()}));
  if (frame.empty() || plain.bytes.size() > most_text_bytes(frame.size())) return plain;
  return {std::move(frame), true};
}

RecipeBook book_from(const BookBytes& stored, const std::string& object) {
  if (!stored.is_frame) return book_from(stored.bytes, object);
  const std::vector<std::uint8_t> text = content_of_frame(stored.bytes, object);
  return book_from(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()), object);
}

RecipeGraph RecipeGraph::of(const std::vector<Recipe>& recipes) {
  RecipeGraph graph;
  graph.add(recipes);
  graph.settle();
  return graph;
}

void RecipeGraph::add(const std::vector<Recipe>& book) { recipes_.insert(recipes_.end(), book.begin(), book.end()); }

RecipeGraph RecipeGraph::without(const std::function<bool(const Recipe&)>& is_lost,
                                 const std::function<bool(const Digest&)>& is_there) const {
  RecipeGraph graph = *this;
  std::erase_if(graph.recipes_, is_lost);
  std::erase_if(graph.at_hand_, [&](const Digest& digest) { return !is_there(digest); });
  graph.settle();
  return graph;
}

// Knuth's generalisation of Dijkstra's algorithm to hyperedges: digests are settled in the order of their cost, and a
// recipe comes into play once all its bases are settled.
void RecipeGraph::settle() {
  struct Candidate {
    std::uint64_t cost_bytes;
    std::uint64_t chain_length;
    bool is_reference;  // of ways that cost the same, rather one that needs nobody else
    Digest digest;
    std::size_t recipe;
    bool begins_at_hand;
    bool operator>(const Candidate& other) const {
      return std::tie(cost_bytes, chain_length, is_reference) >
             std::tie(other.cost_bytes, other.chain_length, other.is_reference);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  std::vector<std::size_t> missing_bases;
  std::map<Digest, std::vector<std::size_t>> used_by;
  // Of a file that is there as it is, the compressed form does not count: when both were written, the first was lost.
  std::set<Digest> plain;
  for (const Recipe& recipe : recipes_) {
    if (!recipe.is_delta && !recipe.reference) plain.insert(recipe.digest);
  }
  const auto is_superseded = [&](const Recipe& recipe) {
    return recipe.is_delta && recipe.base.empty() && plain.contains(recipe.digest);
  };
  std::set<Digest> whole;
  for (const Recipe& recipe : recipes_) {
    if (recipe.base.empty() && !is_superseded(recipe)) whole.insert(recipe.digest);
  }
  const auto offer = [&](std::size_t index) {
    const Recipe& recipe = recipes_[index];
    Candidate candidate{recipe.bytes.length, 0, recipe.reference.has_value(), recipe.digest, index, false};
    for (const Digest& base : recipe.base) {
      const Way& way = ways_.at(base);
      candidate.cost_bytes = add_costs(candidate.cost_bytes, way.cost_bytes);
      candidate.chain_length = std::max(candidate.chain_length, way.chain_length + 1);
      candidate.begins_at_hand |= way.begins_at_hand;
    }
    queue.push(candidate);
  };
  ways_.clear();
  for (std::size_t i = 0; i < recipes_.size(); ++i) {
    missing_bases.push_back(recipes_[i].base.size());
    for (const Digest& base : recipes_[i].base) used_by[base].push_back(i);
    if (recipes_[i].base.empty() && !is_superseded(recipes_[i])) offer(i);
  }
  for (const Digest& digest : at_hand_) queue.push({0, 0, false, digest, k_at_hand, true});
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    // Its turn comes later: it is in the queue as well. Else no anchor would be of use that costs more than a chain
    // from a compressed file.
    if (next.chain_length >= k_longest_chain && !next.begins_at_hand && whole.contains(next.digest)) continue;
    const Way way{next.cost_bytes, next.chain_length, next.recipe, next.begins_at_hand};
    if (!ways_.emplace(next.digest, way).second) continue;
    for (const std::size_t i : used_by[next.digest]) {
      if (--missing_bases[i] == 0) offer(i);
    }
  }
}

const Recipe* RecipeGraph::best(const Digest& digest) const {
  const auto found = ways_.find(digest);
  return found == ways_.end() || found->second.recipe == k_at_hand ? nullptr : &recipes_[found->second.recipe];
}

bool RecipeGraph::is_stored_whole(const Digest& digest) const {
  const Recipe* recipe = best(digest);
  return recipe != nullptr && !recipe->reference && chain_length(digest) == 0;
}

std::vector<ModelReference> RecipeGraph::references_for(const Digest& digest) const {
  std::map<Digest, const Recipe*> recipes;
  collect(digest, recipes);
  std::vector<ModelReference> found;
  for (const auto& [made, recipe] : recipes) {
    if (recipe->reference) found.push_back(*recipe->reference);
  }
  return found;
}

RecipeGraph::Sources RecipeGraph::sources_of(const Digest& digest) const {
  std::map<Digest, const Recipe*> recipes;
  collect(digest, recipes);
  std::set<Digest> at_hand;
  std::set<std::string> objects;
  const auto add = [&](const Digest& each) {
    const auto way = ways_.find(each);
    if (way != ways_.end() && way->second.recipe == k_at_hand) at_hand.insert(each);
  };
  add(digest);
  for (const auto& [made, recipe] : recipes) {
    std::ranges::for_each(recipe->base, add);
    if (!recipe->reference) objects.insert(recipe->bytes.object);
  }
  return {{at_hand.begin(), at_hand.end()}, {objects.begin(), objects.end()}};
}

std::vector<Recipe> RecipeGraph::book_for(const std::vector<Digest>& files, std::size_t generations) const {
  std::map<Digest, std::vector<const Recipe*>> ways_to;
  for (const Recipe& recipe : recipes_) ways_to[recipe.digest].push_back(&recipe);
  std::map<Digest, const Recipe*> best_ones;
  for (const Digest& file : files) collect(file, best_ones);
  std::vector<Recipe> book;
  std::set<std::tuple<Digest, std::string, std::uint64_t>> in_book;
  const auto add_once = [&](const Recipe& recipe) {
    const std::string where = recipe.reference ? recipe.reference->name() : recipe.bytes.object;
    if (in_book.emplace(recipe.digest, where, recipe.bytes.offset).second) book.push_back(recipe);
  };
  for (const auto& [digest, recipe] : best_ones) add_once(*recipe);
  // Few, and ways around a delta that is lost.
  for (const Recipe& recipe : recipes_) {
    if (recipe.base.empty() && best_ones.contains(recipe.digest)) add_once(recipe);
  }

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

std::vector<Recipe> RecipeGraph::needed_for(const std::vector<Digest>& files) const {
  std::map<Digest, const Recipe*> needed;
  for (const Digest& file : files) collect(file, needed);
  std::vector<Recipe> recipes;
  for (const auto& [digest, recipe] : needed) recipes.push_back(*recipe);
  return recipes;
}

std::uint64_t RecipeGraph::cost_together(const std::vector<Digest>& files) const {
  std::uint64_t bytes = 0;
  for (const Recipe& recipe : needed_for(files)) bytes = add_costs(bytes, recipe.bytes.length);
  return bytes;
}

std::map<Digest, std::uint64_t> RecipeGraph::shares_of_cost(const std::vector<Digest>& files) const {
  const std::vector<Recipe> needed = needed_for(files);
  // A digest, what is made of it, and what that is to carry of it.
  struct Node {
    double cost_bytes = 0;
    double size_of_users = 0;
    std::vector<const Recipe*> users;
  };
  std::map<Digest, Node> nodes;
  std::vector<const Recipe*> in_order;
  for (const Recipe& recipe : needed) {
    in_order.push_back(&recipe);
    nodes[recipe.digest].cost_bytes += static_cast<double>(recipe.bytes.length);
    for (const Digest& base : std::set<Digest>(recipe.base.begin(), recipe.base.end())) {
      nodes[base].users.push_back(&recipe);
      nodes[base].size_of_users += static_cast<double>(recipe.size_bytes);
    }
  }
  const std::set<Digest> wanted(files.begin(), files.end());
  std::map<Digest, std::uint64_t> shares;
  for (const Digest& file : wanted) shares[file] = 0;  // what is at hand costs nothing
  // What it is made of comes before it.
  std::ranges::sort(in_order, {}, [this](const Recipe* recipe) { return chain_length(recipe->digest); });
  for (const Recipe* recipe : in_order) {
    const Node& node = nodes[recipe->digest];
    const auto own_size = static_cast<double>(recipe->size_bytes);
    const bool is_wanted = wanted.contains(recipe->digest);
    const double sizes = node.size_of_users + (is_wanted ? own_size : 0);
    const auto share_of = [&](double size) { return sizes == 0 ? 0 : node.cost_bytes * (size / sizes); };
    if (is_wanted) shares[recipe->digest] = static_cast<std::uint64_t>(std::min(share_of(own_size), 0x1p63));
    for (const Recipe* user : node.users)
      nodes[user->digest].cost_bytes += share_of(static_cast<double>(user->size_bytes));
  }
  return shares;
}

void RecipeGraph::collect(const Digest& digest, std::map<Digest, const Recipe*>& into) const {
  std::vector<Digest> open = {digest};
  while (!open.empty()) {
    const Recipe* recipe = best(open.back());
    open.pop_back();
    if (recipe == nullptr || !into.emplace(recipe->digest, recipe).second) continue;
    open.insert(open.end(), recipe->base.begin(), recipe->base.end());
  }
}

}  // namespace wdelta
