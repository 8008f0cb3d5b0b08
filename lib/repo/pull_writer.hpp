// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "delta/file_version.hpp"
#include "engine/engine.hpp"
#include "repo/local_files.hpp"
#include "repo/repository.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

class VersionFinder;

/// Writes files of a commit, from local ones where a delta applies to them, else from the repository alone. A local
/// file is open only while it is needed, so that the space of one that was replaced is free for the next.
class PullWriter {
 public:
  /// All arguments must outlive it. `recipes` are the commit's. In `incoming`, which need not be there, lies what is on
  /// its way, beyond a kill; without one it lies where the store keeps such things.
  PullWriter(const Repository& repository, const RecipeGraph& recipes, const LocalFiles& local,
             std::filesystem::path incoming, const Engine& engine);

  /// Says that `file` is going to be written: what it needs of local files and objects is kept until then. Before any
  /// is written. Throws as no_recipe() says when there is no recipe for it.
  void expect(const ManifestFile& file);
  /// From here on an object that several files need, a pack, is open until the last of them has it: what came of it is
  /// not fetched again, but takes room meanwhile where the store spools what is read.
  void keep_objects_open() { keeps_objects_open_ = true; }
  using Files = std::span<const ManifestFile* const>;
  /// Bytes to fetch for these files together.
  std::uint64_t cost(Files files) const;
  /// Of these, those that lie in the store's spool while they are written, if the store has one.
  std::uint64_t spooled_bytes(Files files) const;
  /// Where objects are kept open and come over a network: fetches the deltas that write() will take for `file`, which
  /// is going to be written. While another file is written, so that the network and the processors work at a time.
  void fetch_ahead(const ManifestFile& file, const Execution& execution);
  /// Writes it to `path`, checked and whole; returns its stamp there. Several may be written at a time. Once all of it
  /// is on the disk, and before it has its name, before_replacing() is called, which may throw. Throws local where
  /// somebody has changed it by then.
  FileStamp write(
      const ManifestFile& file, const std::filesystem::path& path, const Execution& execution,
      const std::function<void()>& before_replacing = [] {});
  /// The same for one that was not expected, by a copy of `held`, which should have its bytes; where they turn out to
  /// be others, it is fetched.
  FileStamp copy(const ManifestFile& file, const std::filesystem::path& held, const std::filesystem::path& path,
                 const Execution& execution);

 private:
  // What files are made from, open while it is needed again after those that are being written.
  class Source {
   public:
    void expect() { ++uses_; }
    /// Opens it unless it is open. Another file that needs it waits meanwhile.
    template <typename Open>
    std::shared_ptr<const ByteReader> take(Open open) {
      const std::lock_guard lock(mutex_);
      if (uses_ > 0) --uses_;
      auto reader = open_ ? open_ : open();
      open_ = uses_ > 0 ? reader : nullptr;
      return reader;
    }
    /// The same for a look at it, by a file that takes it later. Null where none does.
    template <typename Open>
    std::shared_ptr<const ByteReader> look(Open open) {
      const std::lock_guard lock(mutex_);
      if (uses_ > 0 && !open_) open_ = open();
      return open_;
    }

   private:
    std::mutex mutex_;
    std::size_t uses_ = 0;  // by files that have not taken it
    std::shared_ptr<const ByteReader> open_;
  };
  struct AtHand {
    const LocalFiles::Held* held = nullptr;
    Source source;
  };
  std::shared_ptr<const ByteReader> open(const std::string& object) const;
  static FileStamp commit(const ManifestFile& file, OutputFile& output, const std::filesystem::path& path,
                          const Execution& execution);
  const Recipe* whole_object_of(const ManifestFile& file) const;
  bool write_as_it_arrives(const ManifestFile& file, OutputFile& output, const Execution& execution) const;
  /// Gives `finder` those of the objects that are kept open.
  void add_expected(const std::vector<std::string>& objects, VersionFinder& finder, const Execution& execution);
  void write_bytes(const ManifestFile& file, OutputFile& output, const Execution& execution);

  const Repository* repository_;
  std::filesystem::path incoming_;
  const Engine* engine_;
  RecipeGraph stored_graph_;  // without local files
  RecipeGraph graph_;
  std::map<Digest, AtHand> at_hand_;
  std::map<std::string, Source> objects_;  // that some file is made from
  bool keeps_objects_open_ = false;
  OriginProofs proofs_;
};

}  // namespace wdelta
