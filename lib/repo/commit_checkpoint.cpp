// SPDX-License-Identifier: Apache-2.0
#include "repo/commit_checkpoint.hpp"

#include "repo/version_finder.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

// What the files of one commit share while they are open.
struct Opened : std::enable_shared_from_this<Opened> {
  Opened(std::shared_ptr<const Repository> from, const Commit& commit, const Engine& engine, const Execution& given)
      : repository(std::move(from)),
        execution(given),
        graph(repository->recipes(commit)),
        finder(*repository, graph, engine, execution) {}

  // What it is made of is closed with it.
  std::shared_ptr<const ByteReader> open(const FileIdentity& identity) {
    const std::lock_guard lock(finding);
    std::shared_ptr<const ByteReader> reader = finder.find(identity).reader();
    const ByteReader* const bytes = reader.get();
    return {bytes, [self = shared_from_this(), reader = std::move(reader), identity](const ByteReader*) mutable {
              reader.reset();
              const std::lock_guard closing(self->finding);
              self->finder.let_go(identity);
            }};
  }

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
      if (!file.content) return opened->open(file.identity);
      const std::span<const std::uint8_t> bytes = proven_content(file, manifest);
      return std::make_shared<MemoryReader>(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), file.identity.path);
    };
    files.push_back(
        {file.identity.path, file.identity.size_bytes, file.executable, open, std::nullopt, file.identity.digest});
  }
  return Checkpoint(opened->repository->name() + "@" + commit.id.hex().substr(0, 12), std::move(files));
}

}  // namespace wdelta
