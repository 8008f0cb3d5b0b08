// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "delta/file_version.hpp"
#include "repo/recipe.hpp"
#include "repo/repository.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace wdelta {

/// The way out where bytes in a repository are not what they should be.
inline constexpr const char* k_damaged_hint =
    "remove what is damaged; wdelta push --repair --base DIR REPO restores it from a copy";

/// `graph` has no way to `digest`, which the file `path` is made of: not_found where squash is the reason, and says so;
/// else corrupt.
Error no_recipe(const std::string& path, const Digest& digest, const RecipeGraph& graph);
/// The first file of `commit` that `graph`, its recipes, has no way to; null when it can be rebuilt.
const ManifestFile* find_lacking(const Commit& commit, const RecipeGraph& graph);

/// Makes file versions out of recipes: opens the objects and deltas that the best recipes name. What it returns reads
/// from the store when it is read.
class VersionFinder {
 public:
  /// All arguments must outlive it. `graph` is settled.
  VersionFinder(const Repository& repository, const RecipeGraph& graph, const Engine& engine,
                const Execution& execution)
      : repository_(&repository), graph_(&graph), engine_(&engine), execution_(&execution) {}

  /// Bytes that were given to the graph as being at hand. They are checked when they are read.
  void add_at_hand(const FileIdentity& identity, std::shared_ptr<const ByteReader> file);
  /// An object that is open already.
  void add_open(const std::string& object, std::shared_ptr<const ByteReader> reader) {
    open_objects_[object] = std::move(reader);
  }

  /// What write() finds out of origins is for other finders, too, which may be at work at the same time; and the other
  /// way round. `proofs` must outlive it.
  void share(OriginProofs& proofs) { proofs_ = &proofs; }

  /// The version with that identity. Where what the best recipe names is gone, cut short or a damaged delta it is made
  /// another way, if there is one. Throws not_found when gc took its recipes, or what one refers to is gone; corrupt
  /// when recipes are lost, or an object is missing or not what its recipe says.
  FileVersion find(const FileIdentity& wanted);
  /// Closes what was opened for a version that was found, unless others may be made of it, or a store on a network
  /// would have to be asked for it again.
  void let_go(const FileIdentity& found);
  /// Finds it, writes it as write_version() does, and lets it go. What shows only then, that an object has other bytes,
  /// is gone around as well.
  void write(const FileIdentity& wanted, OutputFile* output);
  /// Has `wanted` made without what that recipe takes, which is damaged: throws `why` where there is no other way.
  void go_around(const Recipe& damaged, const Error& why, const FileIdentity& wanted);

 private:
  /// What a recipe names is lost.
  struct Lost {
    std::function<bool(const Recipe&)> recipes;  // whether it is lost to this one, too
    Error error;
  };
  void go_around(const Lost& lost, const FileIdentity& wanted);
  FileVersion find_by_best(const FileIdentity& wanted);
  /// Over a network, opens the objects on the best way to `digest`, several at a time.
  void open_objects_for(const Digest& digest);
  FileVersion make(const Recipe& recipe, const std::string& path);
  FileVersion make_of_reference(const Recipe& recipe, const std::string& path);
  FileVersion make_of_delta(const Recipe& recipe, const std::shared_ptr<const ByteReader>& object);
  std::shared_ptr<const ByteReader> open(const Recipe& recipe, const std::string& path);

  const Repository* repository_;
  const RecipeGraph* graph_;
  const Engine* engine_;
  const Execution* execution_;
  std::optional<RecipeGraph> graph_of_others_;  // without recipes that turned out to be lost
  std::size_t lost_count_ = 0;                  // times that one did
  OriginProofs own_proofs_;
  OriginProofs* proofs_ = &own_proofs_;
  std::map<Digest, FileVersion> versions_;
  // Of these: of a long chain's many tensors the rest is much.
  std::set<Digest> kept_;                                                  // what others may be made of, too
  std::set<Digest> found_;                                                 // what was asked for, until it is let go
  std::map<std::string, std::shared_ptr<const ByteReader>> open_objects_;  // many small files lie in one
};

}  // namespace wdelta
