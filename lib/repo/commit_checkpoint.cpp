// SPDX-License-Identifier: Apache-2.0
#include "repo/commit_checkpoint.hpp"

#include "repo/version_finder.hpp"

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

// What the files of one commit share while they are open.
struct Opened {
  Opened(std::shared_ptr<const Repository> from, const Commit& commit, const Engine& engine, const Execution& given)
      : repository(std::move(from)),
        execution(given),
        graph(repository->recipes(commit)),
        finder(*repository, graph, engine, execution) {}

  std::shared_ptr<const Repository> repository;
  Execution execution;
  RecipeGraph graph;
  std::mutex finding;
  VersionFinder finder;
};

}  // namespace

Checkpoint checkpoint_of(std::shared_ptr<const Repository> repository, const Commit& commit, const Engine& engine,
                         const Execution& execution) {
  const auto opened = std::make_shared<Opened>(std::move(repository), commit, engine, execution);
  std::vector<CheckpointFile> files;
  const std::string manifest = opened->repository->name() + "/" + commit_key(commit.id);
  for (const ManifestFile& file : commit.manifest.files) {
    const auto open = [opened, file, manifest]() -> std::shared_ptr<const ByteReader> {
      if (!file.content) {
        const std::lock_guard lock(opened->finding);
        return opened->finder.find(file.identity).reader();
      }
      const std::span<const std::uint8_t> bytes = proven_content(file, manifest);
      return std::make_shared<MemoryReader>(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), file.identity.path);
    };
    files.push_back(
        {file.identity.path, file.identity.size_bytes, file.executable, open, std::nullopt, file.identity.digest});
  }
  return Checkpoint(opened->repository->name() + "@" + commit.id.hex().substr(0, 12), std::move(files));
}

}  // namespace wdelta
