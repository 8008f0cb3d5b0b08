// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/path_filter.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// One file of a checkpoint, wherever its bytes are.
struct CheckpointFile {
  std::string path;  ///< its place: relative, parts separated by '/'
  std::uint64_t size_bytes = 0;
  bool executable = false;
  std::function<std::shared_ptr<const ByteReader>()> open;  ///< of a Checkpoint: safe from several threads
  std::optional<FileStamp> stamp;  ///< of a file on disk, as it was when the checkpoint was opened
  std::optional<Digest> digest;    ///< where it is known without reading
};

/// For whoever has read a file: throws corrupt where its digest is known and `found` is another, as when an object that
/// it is made from is damaged.
void require_digest(const CheckpointFile& file, const Digest& found);

/// Whether a place is that of a safetensors file, whose tensors are compared; all others are side files.
bool is_weights(std::string_view path);
/// Whether a loader picks up a file at that place by its name alone: weights or their index.
bool is_loaded_by_name(std::string_view path);

/// Whether every shard that an index names must be there.
enum class Shards { required, any };

/// What to do about what a commit cannot hold: what is neither a directory nor a file nor a symlink to one (a FIFO, a
/// socket, another symlink), and files whose names may not be places.
enum class Others { refuse, tell_apart };

/// A set of files with their places: one safetensors file, a directory with everything in it, or what a commit holds.
class Checkpoint {
 public:
  /// `files` in any order. `name` is for messages.
  Checkpoint(std::string name, std::vector<CheckpointFile> files);

  /// Looks at names and stamps, reads no weights. In a directory, all regular files below it and symlinks to such; left
  /// out are `.wdelta`, `.git`, `.cache/huggingface` and the temporary files of OutputFile. Throws not_found; local for
  /// a dangling symlink, for something that is no file, or when an index (*.safetensors.index.json) names a shard that
  /// is not there; unsupported for a name that is not UTF-8 or may not be a place. With Shards::required it is to be
  /// kept: then unsupported, too, for names that collide where case does not count.
  /// Only what `filter` takes of a directory is looked at; a shard that it leaves out need only be there.
  /// With Others::tell_apart what a commit cannot hold in a directory is not refused: others() names it.
  static Checkpoint open(const std::filesystem::path& path, Shards shards = Shards::required,
                         const PathFilter& filter = {}, Others others = Others::refuse);

  const std::string& name() const { return name_; }
  bool is_single_file() const { return single_file_; }
  /// Ordered by path.
  const std::vector<CheckpointFile>& files() const { return files_; }
  const CheckpointFile* find(std::string_view path) const;
  /// What a commit cannot hold, by its path below the directory, ordered.
  const std::vector<std::string>& others() const { return others_; }
  /// Whether its files can be found again by their stamps: those of a commit and those in memory cannot.
  bool is_on_disk() const { return !files_.empty() && files_.front().stamp.has_value(); }

  /// Of a shard that an index names and that is not there, and of an index that is no JSON, as one that is still being
  /// written, what open() with Shards::required throws. Throws what opening and reading an index does, and corrupt for
  /// one that is too large.
  std::optional<Error> missing_shard() const;

  /// Whether it has the same places with the same stamps.
  bool has_stamps_of(const Checkpoint& other) const;
  /// Throws local when anything in a checkpoint that was opened was added, removed, replaced or written since it was
  /// opened: a saver that replaces files one after the other leaves a mixture of two steps, which no single file shows.
  void check_unchanged() const;

 private:
  std::string name_;
  bool single_file_ = false;
  bool opened_ = false;  // by open()
  PathFilter filter_;
  std::vector<CheckpointFile> files_;
  std::vector<std::string> others_;
};

}  // namespace wdelta
