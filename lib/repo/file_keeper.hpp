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
#include <string>

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

  /// Keeps a file of a new commit; a small side file becomes content of the manifest. Throws local when it changes
  /// while it is read.
  ManifestFile keep(const CheckpointFile& file);
  /// Keeps the bytes of a file as objects, unless they are known; returns their digest.
  Digest keep_bytes(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader);
  /// Writes what is still held back.
  void finish() { objects_.finish(); }

  const ObjectWriter& objects() const { return objects_; }
  const KeptBytes& kept() const { return kept_; }

 private:
  Digest keep_weights(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader);
  Digest keep_opaque(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader);
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
};

}  // namespace wdelta
