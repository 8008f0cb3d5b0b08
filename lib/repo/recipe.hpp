// SPDX-License-Identifier: Apache-2.0
// How bytes can be had: wdelta-repository(5), "Recipe books".
#pragma once

#include "base/digest.hpp"
#include "store/model_hub.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// Bytes within an object.
struct ObjectRange {
  std::string object;  ///< DIGEST or DIGEST.safetensors
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  /// Whether an object of this size has all of it.
  bool fits_in(std::uint64_t object_bytes) const { return offset <= object_bytes && length <= object_bytes - offset; }

  auto operator<=>(const ObjectRange&) const = default;
};

/// The key of an object, objects/ab/NAME.
std::string object_key(const std::string& object);
/// The digest that an object's name says; nothing when it is no such name.
std::optional<Digest> object_digest(std::string_view object);
/// Whether it is the key of an object: what lies among them under another name is somebody else's.
bool is_object_key(const std::string& key);

/// A file that lies in a model repository on the Hub, and only there.
struct ModelReference {
  ModelCommit at;
  std::string path;
  std::string etag;  ///< what the Hub knows the content by (ModelFile)

  auto operator<=>(const ModelReference&) const = default;
  /// hf://NAMESPACE/NAME@COMMIT/PATH
  std::string name() const { return at.name() + "/" + path; }
};

struct Recipe {
  Digest digest;  ///< of the file that it makes
  std::uint64_t size_bytes = 0;
  ObjectRange bytes;  ///< the file itself, or a delta; of a reference, the length alone
  bool is_delta = false;
  std::vector<Digest> base;                                ///< of a delta
  std::optional<ModelReference> reference = std::nullopt;  ///< where the file is, instead of in an object

  auto operator<=>(const Recipe&) const = default;
};

/// Recipes that were written together.
struct RecipeBook {
  std::vector<Recipe> recipes;
  /// Since when the commit that the book is for is given up: nothing needs it any more, gc may take its bytes.
  std::optional<std::string> squashed;
};

std::string to_text(const RecipeBook& book);
/// Throws corrupt, naming `object`; unsupported for a book of a newer version.
RecipeBook book_from(std::string_view text, const std::string& object);

/// The bytes of a book as they are stored.
struct BookBytes {
  std::string bytes;
  bool is_frame = false;  ///< a zstd frame of the text, else that itself

  Digest digest() const;
};

/// A frame where the text is long.
BookBytes bytes_of(const RecipeBook& book);
/// Throws as book_from() does.
RecipeBook book_from(const BookBytes& stored, const std::string& object);

/// All recipes that are known, and for each digest the cheapest way to have it.
class RecipeGraph {
 public:
  /// From so many deltas on a file that is stored whole is made of that instead, whatever it costs, by who has nothing.
  static constexpr std::uint64_t k_longest_chain = 64;

  /// Of these recipes and no others, settled.
  static RecipeGraph of(const std::vector<Recipe>& recipes);
  /// Adds recipes, until settle() to no effect; one that is there already does no harm.
  void add(const std::vector<Recipe>& book);
  /// The same without the recipes that are lost, and of what is at hand with only what is there; settled.
  RecipeGraph without(const std::function<bool(const Recipe&)>& is_lost,
                      const std::function<bool(const Digest&)>& is_there) const;
  /// Bytes that are at hand and cost nothing.
  void add_at_hand(const Digest& digest) { at_hand_.push_back(digest); }
  /// The recipes are those of a commit that squash gave up, so that gc may have taken some.
  void mark_squashed(const std::string& since) { squashed_ = since; }
  /// Since when the commit is given up.
  const std::optional<std::string>& squashed() const { return squashed_; }
  /// Finds the cheapest way to every digest. Cycles do no harm: nothing is made of itself.
  void settle();

  /// The recipe to make `digest` by, or null when it is at hand or cannot be made. After settle().
  const Recipe* best(const Digest& digest) const;
  bool can_make(const Digest& digest) const { return ways_.contains(digest); }
  /// Whether the best way to `digest` takes one object and nothing else.
  bool is_stored_whole(const Digest& digest) const;
  /// The references that the best way to `digest` begins with.
  std::vector<ModelReference> references_for(const Digest& digest) const;
  /// Bytes to fetch for `digest`, were it fetched alone, and what it is made of in two ways fetched twice: what the
  /// best way is found by.
  std::uint64_t cost(const Digest& digest) const { return ways_.at(digest).cost_bytes; }
  /// The recipes that the best ways to these files take, those that cannot be made left out.
  std::vector<Recipe> needed_for(const std::vector<Digest>& files) const;
  /// Bytes to fetch for all of these files together: what several are made of once.
  std::uint64_t cost_together(const std::vector<Digest>& files) const;
  /// That cost, divided among the files: what several files or versions are made of counts for each of these in
  /// proportion to its size. 0 for one that cannot be made.
  std::map<Digest, std::uint64_t> shares_of_cost(const std::vector<Digest>& files) const;
  /// Deltas from the last file that is made of nothing else to `digest`.
  std::uint64_t chain_length(const Digest& digest) const { return ways_.at(digest).chain_length; }
  /// The best recipes for `digest` and for all that it is made from. They live as long as the graph, unchanged.
  void collect(const Digest& digest, std::map<Digest, const Recipe*>& into) const;
  /// What the best way to `digest` begins with: what is at hand, and the objects that it takes bytes from; each once.
  struct Sources {
    std::vector<Digest> at_hand;
    std::vector<std::string> objects;
  };
  Sources sources_of(const Digest& digest) const;
  /// What a book for these files holds: their best recipes back to files stored whole, all that store one of these
  /// versions whole, and every other recipe of theirs up to `generations` deltas back, so that who has an old version
  /// comes from there though an anchor lies between.
  std::vector<Recipe> book_for(const std::vector<Digest>& files, std::size_t generations) const;

 private:
  static constexpr std::size_t k_at_hand = SIZE_MAX;
  struct Way {
    std::uint64_t cost_bytes = 0;
    std::uint64_t chain_length = 0;
    std::size_t recipe = k_at_hand;  // index in recipes_
    bool begins_at_hand = true;
  };
  std::vector<Recipe> recipes_;
  std::vector<Digest> at_hand_;
  std::optional<std::string> squashed_;
  std::map<Digest, Way> ways_;
};

}  // namespace wdelta
