// SPDX-License-Identifier: Apache-2.0
#include "repo/reference_check.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <map>

namespace wdelta {

namespace {

using FilesByPath = std::map<std::string, ModelFile>;

std::string why_lost(const Recipe& recipe, const FilesByPath& there) {
  const auto found = there.find(recipe.reference->path);
  if (found == there.end()) return "is not there any more";
  if (found->second.size_bytes != recipe.size_bytes)
    return fmt::format("has {} bytes, {} expected", found->second.size_bytes, recipe.size_bytes);
  if (found->second.etag != recipe.reference->etag)
    return fmt::format("is another file: {}, {} expected", found->second.etag, recipe.reference->etag);
  return "";
}

}  // namespace

std::vector<LostReference> find_lost_references(const Repository& repository, const std::vector<Recipe>& recipes,
                                                const Execution& execution) {
  std::map<ModelCommit, std::map<std::string, Recipe>> by_model;
  for (const Recipe& recipe : recipes) {
    if (recipe.reference)
      by_model[recipe.reference->at].emplace(recipe.reference->name() + recipe.digest.hex(), recipe);
  }
  std::vector<LostReference> lost;
  for (const auto& [at, referring] : by_model) {
    execution.check_stop();
    std::vector<std::string> paths;
    for (const auto& [name, recipe] : referring) paths.push_back(recipe.reference->path);
    FilesByPath there;
    std::string gone;
    try {
      for (ModelFile& file : repository.models().look_up(at, paths)) there[file.path] = std::move(file);
    } catch (const Error& error) {
      if (error.fault() != Fault::not_found) throw;
      gone = error.what();
    }
    for (const auto& [name, recipe] : referring) {
      const std::string what = gone.empty() ? why_lost(recipe, there) : gone;
      if (!what.empty()) lost.push_back({recipe, what});
    }
  }
  return lost;
}

}  // namespace wdelta
