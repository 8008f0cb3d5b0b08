// SPDX-License-Identifier: Apache-2.0
#include "repo/file_keeper.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "delta/opaque_coding.hpp"

#include <algorithm>

namespace wdelta {

ManifestFile FileKeeper::keep(const CheckpointFile& file) {
  const auto reader = file.open();
  // The stamp was taken when the checkpoint was opened: this sees files that were replaced as well.
  if (reader->size_bytes() != file.size_bytes) throw Error(Fault::local, reader->name(), "changed while it was read");
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
    kept.identity.digest = keep_bytes(file, reader);
  }
  reader->check_unchanged();
  return kept;
}

Digest FileKeeper::keep_bytes(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader) {
  const std::uint64_t before = objects_.stored_bytes();
  const Digest digest = is_weights(file.path) ? keep_weights(file, reader) : keep_opaque(file, reader);
  kept_.of(kind_of(file.path)).stored_bytes += objects_.stored_bytes() - before;
  return digest;
}

Digest FileKeeper::keep_weights(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader) {
  const SafetensorsHeader header = SafetensorsHeader::read(*reader);
  const auto base = [&] {
    return previous_ == nullptr ? std::vector<BaseFile>() : previous_->for_place(file.path, header);
  };
  const bool has_base = !base().empty();
  if (!has_base && whole_ == WholeWeights::plain) return objects_.put_whole(reader, file.path);
  FileChange change = compare(file.path, [&] {
    return diff_file(base(), file.path, reader, store_->staging_path(), {}, *engine_, *execution_);
  });
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
  const auto base = base_of();
  const auto coding = choose_opaque_coding(base ? base->file : nullptr, *reader, *engine_);
  if (!coding) return objects_.put_whole(reader, file.path);
  FileChange change = compare(file.path, [&] {
    return diff_opaque_file(coding->with_base ? base_of() : std::nullopt, file.path, reader, *coding->dtype,
                            store_->staging_path(), {BlockChoice::unknown_bytes}, *engine_, *execution_);
  });
  keep_change(change, file, reader);
  return change.description.result.digest;
}

// Compares with the previous checkpoint, and makes sure that what it was compared with is the parent commit.
FileChange FileKeeper::compare(const std::string& path, const std::function<FileChange()>& diff) {
  for (;;) {
    FileChange change = diff();
    const auto is_parents = [&](const FileIdentity& base) {
      const ManifestFile* file = parent_->manifest.find(base.path);
      return file != nullptr && file->identity == base;
    };
    if (std::ranges::all_of(change.description.base, is_parents)) return change;
    if (!previous_->is_local()) {
      throw Error(Fault::corrupt, path, "the repository does not rebuild it as it was pushed",
                  "run wdelta verify REPO");
    }
    execution_->progress->note(
        "the previous checkpoint was changed since it was pushed: comparing with the repository");
    previous_->distrust();
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
