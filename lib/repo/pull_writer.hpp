// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "engine/engine.hpp"
#include "repo/local_files.hpp"
#include "repo/repository.hpp"

#include <filesystem>
#include <map>
#include <memory>

namespace wdelta {

/// Writes files of a commit, from local ones where a delta applies to them, else from the repository alone. A local
/// file is open only while it is needed, so that the space of one that was replaced is free for the next.
class PullWriter {
 public:
  /// All arguments must outlive it. `recipes` are the commit's. In `incoming`, which need not be there, lies what is on
  /// its way, beyond a kill; without one it lies where the store keeps such things.
  PullWriter(const Repository& repository, const RecipeGraph& recipes, const LocalFiles& local,
             std::filesystem::path incoming, const Engine& engine, const Execution& execution);

  /// Says that `file` is going to be written: what it needs of the local files is kept until then.
  /// Throws as no_recipe() says when there is no recipe for it.
  void expect(const ManifestFile& file);
  /// Bytes to fetch for `file`.
  std::uint64_t cost(const ManifestFile& file) const;
  /// Of these, those that lie in the store's spool while it is written, if the store has one.
  std::uint64_t spooled_bytes(const ManifestFile& file) const;
  /// Writes it to `path`, checked and whole; returns its stamp there.
  FileStamp write(const ManifestFile& file, const std::filesystem::path& path);
  /// The same, by a copy of `held`, which should have its bytes; where they turn out to be others, it is fetched.
  FileStamp copy(const ManifestFile& file, const std::filesystem::path& held, const std::filesystem::path& path);

 private:
  struct AtHand {
    const LocalFiles::Held* held = nullptr;
    std::size_t uses = 0;                    // by files still to be written
    std::shared_ptr<const ByteReader> open;  // while it is needed again after the file now being written
  };
  static FileStamp commit(const ManifestFile& file, OutputFile& output, const std::filesystem::path& path);
  const Recipe* whole_object_of(const ManifestFile& file) const;
  bool write_as_it_arrives(const ManifestFile& file, OutputFile& output);
  void write_bytes(const ManifestFile& file, OutputFile& output);

  const Repository* repository_;
  std::filesystem::path incoming_;
  const Engine* engine_;
  const Execution* execution_;
  RecipeGraph stored_graph_;  // without local files
  RecipeGraph graph_;
  std::map<Digest, AtHand> at_hand_;
};

}  // namespace wdelta
