// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "repo/repository.hpp"
#include "repo/version_finder.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace wdelta {

/// Rebuilds the files of commits as streams, each file once, however many commits have it.
class RebuildCheck {
 public:
  /// All must outlive the check. `kept`: objects that are open already, by name.
  RebuildCheck(const Repository& repository, const std::map<std::string, std::shared_ptr<const ByteReader>>& kept,
               const Engine& engine, const Execution& execution)
      : repository_(&repository), kept_(&kept), engine_(&engine), execution_(&execution) {}

  /// Rebuilds those files of the commit that no commit before had. Returns how many bytes they are. Throws corrupt
  /// where one is not what the commit says.
  std::uint64_t run(const Commit& commit, const RecipeGraph& recipes);

 private:
  struct Rebuilding {
    Rebuilding(const Repository& repository, RecipeGraph recipes, const Engine& engine, const Execution& execution)
        : graph(std::move(recipes)), finder(repository, graph, engine, execution) {}
    RecipeGraph graph;
    VersionFinder finder;
  };

  const Repository* repository_;
  const std::map<std::string, std::shared_ptr<const ByteReader>>* kept_;
  const Engine* engine_;
  const Execution* execution_;
  std::set<Digest> rebuilt_;
  OriginProofs proofs_;
  // What the commit before was made from stays open where it comes over a network: most commits begin with the same
  // large files, and these need not be fetched again for each.
  std::unique_ptr<Rebuilding> last_;
};

}  // namespace wdelta
