// SPDX-License-Identifier: Apache-2.0
#include "repo/rebuild_check.hpp"

#include "delta/place_turns.hpp"

#include <mutex>
#include <vector>

namespace wdelta {

std::uint64_t RebuildCheck::run(const Commit& commit, const RecipeGraph& recipes) {
  std::set<Digest> digests;
  std::vector<FileIdentity> files;
  std::vector<std::uint64_t> sizes_bytes;
  for (const ManifestFile& file : commit.manifest.files) {
    const FileIdentity& identity = file.identity;
    if (file.content || !recipes.can_make(identity.digest) || rebuilt_.contains(identity.digest)) continue;
    if (!digests.insert(identity.digest).second) continue;
    files.push_back(identity);
    sizes_bytes.push_back(identity.size_bytes);
  }
  if (files.empty()) return 0;
  auto next = std::make_unique<Rebuilding>(*repository_, recipes, *engine_, *execution_);
  for (const auto& [object, reader] : *kept_) next->finder.add_open(object, reader);
  std::mutex finding;
  for_each_place(sizes_bytes, *engine_, *execution_, [&](std::size_t index, const Execution& on) {
    const auto find = [&] {
      const std::lock_guard lock(finding);
      return next->finder.find(files[index]);
    };
    write_version(find(), nullptr, on, proofs_);
    const std::lock_guard lock(finding);
    next->finder.let_go(files[index]);
  });
  rebuilt_.merge(digests);
  last_ = std::move(next);
  std::uint64_t total_bytes = 0;
  for (const std::uint64_t size_bytes : sizes_bytes) total_bytes += size_bytes;
  return total_bytes;
}

}  // namespace wdelta
