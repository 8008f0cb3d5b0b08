// SPDX-License-Identifier: Apache-2.0
#include "repo/rebuild_check.hpp"

#include "delta/place_turns.hpp"

#include <vector>

namespace wdelta {

std::uint64_t RebuildCheck::run(const Commit& commit, const RecipeGraph& recipes) {
  auto next = std::make_unique<Rebuilding>(*repository_, recipes, *engine_, *execution_);
  for (const auto& [object, reader] : *kept_) next->finder.add_open(object, reader);
  std::set<Digest> digests;
  std::vector<FileVersion> versions;
  std::vector<std::uint64_t> sizes_bytes;
  for (const ManifestFile& file : commit.manifest.files) {
    const FileIdentity& identity = file.identity;
    if (file.content || !next->graph.can_make(identity.digest) || rebuilt_.contains(identity.digest)) continue;
    if (!digests.insert(identity.digest).second) continue;
    versions.push_back(next->finder.find(identity));
    sizes_bytes.push_back(identity.size_bytes);
  }
  if (versions.empty()) return 0;
  for_each_place(sizes_bytes, *engine_, *execution_,
                 [&](std::size_t index, const Execution& on) { write_version(versions[index], nullptr, on, proofs_); });
  rebuilt_.merge(digests);
  last_ = std::move(next);
  std::uint64_t total_bytes = 0;
  for (const std::uint64_t size_bytes : sizes_bytes) total_bytes += size_bytes;
  return total_bytes;
}

}  // namespace wdelta
