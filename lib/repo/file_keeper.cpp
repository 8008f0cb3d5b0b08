// SPDX-License-Identifier: Apache-2.0
#include "repo/file_keeper.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "delta/opaque_coding.hpp"
#include "delta/place_turns.hpp"

#include <algorithm>

namespace wdelta {

// Small weights are compared ahead of their turn, and put in their order while others are compared.
std::vector<ManifestFile> FileKeeper::keep(std::span<const CheckpointFile> files) {
  std::vector<std::optional<ManifestFile>> kept(files.size());
  const std::vector<std::size_t> ahead = compared_side_by_side(files);
  ordered_in_runs(
      TaskRuns{ahead.size()}, *execution_,
      [&] { return [&](std::size_t turn, std::size_t) { return compared_ahead(files[ahead[turn]]); }; },
      [&](std::size_t turn, Incoming incoming) { kept[ahead[turn]] = keep(std::move(incoming)); });
  // Weights first: the same bytes under a name that says nothing, as of a blob of the Hub's cache, are known then.
  for (const bool are_weights : {true, false}) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (kept[i] || is_weights(files[i].path) != are_weights) continue;
      execution_->check_stop();
      kept[i] = keep(open(files[i]));
    }
  }
  std::vector<ManifestFile> all;
  for (auto& file : kept) all.push_back(std::move(*file));
  return all;
}

std::vector<std::size_t> FileKeeper::compared_side_by_side(std::span<const CheckpointFile> files) const {
  if (previous_ == nullptr) return {};
  std::vector<std::size_t> weights;
  std::vector<std::uint64_t> sizes_bytes;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!is_weights(files[i].path)) continue;
    weights.push_back(i);
    sizes_bytes.push_back(files[i].size_bytes);
  }
  std::vector<std::size_t> side_by_side;
  for (const std::size_t turn : place_turns(sizes_bytes, *engine_, execution_->threads).side_by_side)
    side_by_side.push_back(weights[turn]);
  return side_by_side;
}

FileKeeper::Incoming FileKeeper::open(const CheckpointFile& file) {
  const std::lock_guard lock(opening_);
  Incoming incoming{&file, file.open()};
  // The stamp was taken when the checkpoint was opened: this sees files that were replaced as well.
  if (incoming.reader->size_bytes() != file.size_bytes)
    throw Error(Fault::local, incoming.reader->name(), "changed while it was read");
  return incoming;
}

FileKeeper::Incoming FileKeeper::compared_ahead(const CheckpointFile& file) {
  Incoming incoming = open(file);
  try {
    const OrderedBase base = base_for(file.path, SafetensorsHeader::read(*incoming.reader));
    if (!base.empty()) {
      incoming.change =
          diff_file(base, file.path, incoming.reader, store_->staging_path(), {}, *engine_, execution_->on(1));
    }
  } catch (const Error& error) {
    // When its turn comes it is compared again, and if need be with the repository.
    if (error.fault() == Fault::interrupted) throw;
  }
  return incoming;
}

ManifestFile FileKeeper::keep(Incoming incoming) {
  const CheckpointFile& file = *incoming.file;
  const auto reader = incoming.reader;
  ManifestFile kept{{file.path, file.size_bytes, {}}, file.executable, std::nullopt};
  KindBytes& kind = kept_.of(kind_of(file.path));
  ++kind.file_count;
  kind.checkpoint_bytes += file.size_bytes;
  const bool fits = file.size_bytes <= k_inline_file_bytes && inlined_bytes_ + file.size_bytes <= k_inline_total_bytes;
  if (fits && !is_weights(file.path)) {
    const std::vector<std::uint8_t> bytes = read_all(*reader);
    kept.identity.digest = blake3(bytes);
    kept.content = std::string(bytes.begin(), bytes.end());
    inlined_bytes_ += bytes.size();
    execution_->progress->advance(bytes.size());
  } else {
    kept.identity.digest = keep_bytes(incoming);
  }
  require_digest(file, kept.identity.digest);
  reader->check_unchanged();
  return kept;
}

Digest FileKeeper::keep_bytes(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader) {
  Incoming incoming{&file, reader};
  return keep_bytes(incoming);
}

Digest FileKeeper::keep_bytes(Incoming& incoming) {
  const CheckpointFile& file = *incoming.file;
  const std::uint64_t before = objects_.stored_bytes();
  const Digest digest = is_weights(file.path) ? keep_weights(incoming) : keep_opaque(file, incoming.reader);
  kept_.of(kind_of(file.path)).stored_bytes += objects_.stored_bytes() - before;
  return digest;
}

void FileKeeper::distrust_previous() {
  const std::lock_guard lock(opening_);
  execution_->progress->note("the previous checkpoint was changed since it was pushed: comparing with the repository");
  previous_->distrust();
}

// Returns what work() does, done once more with the repository when the previous checkpoint went meanwhile. For files
// whose turn it is, one at a time: nobody else distrusts.
template <class Work>
auto FileKeeper::despite_rotation(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    if (previous_ == nullptr || !previous_->may_be_to_blame_for(error)) throw;
  }
  distrust_previous();
  return work();
}

// What was compared ahead of its turn with a previous checkpoint that was changed since is compared anew.
Digest FileKeeper::keep_weights(Incoming& incoming) {
  const CheckpointFile& file = *incoming.file;
  const auto& reader = incoming.reader;
  bool has_base = true;
  FileChange change;
  if (incoming.change && is_of_parent(*incoming.change)) {
    change = std::move(*incoming.change);
  } else {
    const SafetensorsHeader header = SafetensorsHeader::read(*reader);
    has_base = despite_rotation([&] { return !base_for(file.path, header).empty(); });
    if (!has_base && whole_ == WholeWeights::plain) return objects_.put_whole(reader, file.path);
    change = compare(file.path, [&] {
      return diff_file(base_for(file.path, header), file.path, reader, store_->staging_path(), {}, *engine_,
                       *execution_);
    });
  }
  const std::uint64_t delta_bytes = keep_change(change, file, reader);
  if (has_base) {
    kept_.delta_bytes += delta_bytes;
    kept_.element_count += change.description.element_count;
    kept_.change_count += change.description.change_count;
  }
  return change.description.result.digest;
}

Digest FileKeeper::keep_opaque(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader) {
  if (file.size_bytes <= ObjectWriter::k_pack_file_bytes) return objects_.put_whole(reader, file.path);
  const auto base_of = [&] { return previous_ == nullptr ? std::nullopt : previous_->opaque_for(file.path); };
  const auto coding = despite_rotation([&] {
    const auto base = base_of();
    return choose_opaque_coding(base ? base->file : nullptr, *reader, *engine_);
  });
  if (!coding) return objects_.put_whole(reader, file.path);
  FileChange change = compare(file.path, [&] {
    return diff_opaque_file(coding->with_base ? base_of() : std::nullopt, file.path, reader, *coding->dtype,
                            store_->staging_path(), {BlockChoice::unknown_bytes}, *engine_, *execution_);
  });
  keep_change(change, file, reader);
  return change.description.result.digest;
}

OrderedBase FileKeeper::base_for(const std::string& path, const SafetensorsHeader& next) {
  const std::lock_guard lock(opening_);
  return previous_ == nullptr ? OrderedBase() : previous_->for_place(path, next);
}

bool FileKeeper::is_of_parent(const FileChange& change) const {
  return std::ranges::all_of(change.description.base, [&](const FileIdentity& base) {
    const ManifestFile* file = parent_->manifest.find(base.path);
    return file != nullptr && file->identity == base;
  });
}

// Compares with the previous checkpoint, and makes sure that what it was compared with is the parent commit.
FileChange FileKeeper::compare(const std::string& path, const std::function<FileChange()>& diff) {
  for (;;) {
    FileChange change = despite_rotation(diff);
    if (is_of_parent(change)) return change;
    if (!previous_->is_local()) {
      throw Error(Fault::corrupt, path, "the repository does not rebuild it as it was pushed",
                  "run wdelta verify REPO");
    }
    distrust_previous();
  }
}

// Keeps a delta where it pays, else the file whole; returns what the delta takes.
std::uint64_t FileKeeper::keep_change(FileChange& change, const CheckpointFile& file,
                                      const std::shared_ptr<const ByteReader>& reader) {
  const Digest digest = change.description.result.digest;
  if (objects_.has(digest)) return 0;
  if (pays(change.delta->size_bytes, file.size_bytes)) {
    const std::uint64_t size_bytes = change.delta->size_bytes;
    objects_.put_delta(std::move(*change.delta), change.description);
    return size_bytes;
  }
  if (objects_.put_whole(reader, file.path) != digest) {
    throw Error(Fault::local, reader->name(), "changed while it was read");
  }
  return 0;
}

}  // namespace wdelta
