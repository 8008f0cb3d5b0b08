// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/file_kind.hpp"
#include "delta/diff.hpp"
#include "engine/engine.hpp"
#include "repo/object_writer.hpp"
#include "repo/previous_checkpoint.hpp"
#include "repo/repository.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// What files of one kind came to.
struct KindBytes {
  std::size_t file_count = 0;
  std::uint64_t checkpoint_bytes = 0;
  std::uint64_t stored_bytes = 0;  ///< of objects written for them
};

/// What keeping files came to.
struct KeptBytes {
  std::array<KindBytes, k_file_kinds.size()> by_kind;
  std::uint64_t delta_bytes = 0;    ///< of the objects written, deltas between tensors
  std::uint64_t element_count = 0;  ///< of tensors that were compared
  std::uint64_t change_count = 0;

  KindBytes& of(FileKind kind) { return by_kind[static_cast<std::size_t>(kind)]; }
  const KindBytes& of(FileKind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
};

/// How weights are kept that no delta is made of: as the files that they are, or (where that pays) as a delta without a
/// base, which only wdelta reads.
enum class WholeWeights { plain, compressed };

/// Puts the files of a new commit into the repository, each the cheapest way: as a delta to the previous checkpoint, as
/// aligned differences where its format is not known, compressed, whole, or in a pack.
class FileKeeper {
 public:
  /// `known`: recipes that the commit's book will hold anyway. `parent` and `previous`: the commit to compare with and
  /// its files; null when there is none. All must outlive it.
  FileKeeper(Repository& repository, const RecipeGraph& known, const Commit* parent, PreviousCheckpoint* previous,
             const Engine& engine, const Execution& execution, WholeWeights whole = WholeWeights::plain)
      : store_(&repository.store()),
        parent_(parent),
        previous_(previous),
        whole_(whole),
        engine_(&engine),
        execution_(&execution),
        objects_(repository.store(), known, execution) {}

  /// Keeps the files of a new commit, and returns them in their order; a small side file becomes content of the
  /// manifest. Throws local when one changes while it is read, corrupt when one has another digest than it is known to
  /// have.
  std::vector<ManifestFile> keep(std::span<const CheckpointFile> files);
  /// Keeps the bytes of a file as objects, unless they are known; returns their digest.
  Digest keep_bytes(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader);
  /// Writes what is still held back.
  void finish() { objects_.finish(); }

  const ObjectWriter& objects() const { return objects_; }
  const KeptBytes& kept() const { return kept_; }

 private:
  /// A file that is to be kept, open, and how it differs from the previous checkpoint, where that was looked at ahead
  /// of its turn.
  struct Incoming {
    const CheckpointFile* file;
    std::shared_ptr<const ByteReader> reader;
    std::optional<FileChange> change = std::nullopt;
  };
  std::vector<std::size_t> compared_side_by_side(std::span<const CheckpointFile> files) const;
  Incoming open(const CheckpointFile& file);
  Incoming compared_ahead(const CheckpointFile& file);
  ManifestFile keep(Incoming incoming);
  Digest keep_bytes(Incoming& incoming);
  Digest keep_weights(Incoming& incoming);
  Digest keep_opaque(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader);
  OrderedBase base_for(const std::string& path, const SafetensorsHeader& next);
  bool is_of_parent(const FileChange& change) const;
  void distrust_previous();
  template <class Work>
  auto despite_rotation(Work work);
  FileChange compare(const std::string& path, const std::function<FileChange()>& diff);
  std::uint64_t keep_change(FileChange& change, const CheckpointFile& file,
                            const std::shared_ptr<const ByteReader>& reader);

  Store* store_;
  const Commit* parent_;
  PreviousCheckpoint* previous_;
  WholeWeights whole_;
  const Engine* engine_;
  const Execution* execution_;
  ObjectWriter objects_;
  KeptBytes kept_;
  std::size_t inlined_bytes_ = 0;
  std::mutex opening_;  // of files, those of the previous checkpoint too
};

}  // namespace wdelta
