// SPDX-License-Identifier: Apache-2.0
#include "delta/file_version.hpp"

#include "base/cached_reader.hpp"
#include "base/hashing_reader.hpp"
#include "base/parallel.hpp"
#include "base/reader_digest.hpp"
#include "base/segments.hpp"
#include "base/window.hpp"
#include "delta/device_segment_writer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <utility>

namespace wdelta {

FileVersion whole_version(FileIdentity identity, std::shared_ptr<const ByteReader> file, Fault fault_when_wrong) {
  FileVersion version;
  version.origins = {{file, identity.digest, fault_when_wrong}};
  version.whole = std::move(file);
  version.identity = std::move(identity);
  return version;
}

namespace {

std::shared_ptr<const ByteReader> read_by_another(const FileVersion& base) {
  return base.rebuilt ? std::make_shared<CachedReader>(base.rebuilt) : base.reader();
}

// A base as the delta sees it. Deltas that see it alike are resolved together, block by block; else one reads what the
// other makes: the same bytes may be an opaque file in one commit and a safetensors file in the next, by their name.
std::shared_ptr<const RebuiltFile> seen_by(const DeltaDescription& delta, const FileVersion& base) {
  if (delta.opaque == nullptr) {
    const bool has_tensors = base.rebuilt && !base.rebuilt->is_opaque();
    return has_tensors ? base.rebuilt : RebuiltFile::from_file(read_by_another(base));
  }
  const auto layout = SafetensorsHeader::of_bytes(delta.result.size_bytes, *delta.opaque);
  if (base.rebuilt && base.rebuilt->header().is_laid_out_like(layout)) return base.rebuilt;
  return RebuiltFile::from_bytes(read_by_another(base), delta.result.size_bytes, *delta.opaque);
}

}  // namespace

FileVersion delta_version(const std::shared_ptr<const DeltaReader>& delta, const std::vector<FileVersion>& bases,
                          const Engine& engine) {
  FileVersion version;
  version.identity = delta->description().result;
  std::vector<std::shared_ptr<const RebuiltFile>> files;
  for (const FileVersion& base : bases) {
    files.push_back(seen_by(delta->description(), base));
    for (const Origin& origin : base.origins) {
      if (std::ranges::find(version.origins, origin.file, &Origin::file) == version.origins.end()) {
        version.origins.push_back(origin);
      }
    }
  }
  version.rebuilt = RebuiltFile::from_delta(delta, files, engine);
  return version;
}

namespace {

void require_origin(const Origin& origin, const Digest& found) {
  if (found == origin.digest) return;
  const char* what =
      origin.fault == Fault::base_mismatch ? "is not the base of this delta" : "is not what it should be";
  throw WrongOrigin(origin, fmt::format("{}: digest {}, {} expected", what, found.hex(), origin.digest.hex()));
}

// What is written in whole pages costs least.
static_assert(k_memory_page_bytes % Blake3Segment::k_unit_bytes == 0);
// What of a segment may wait until others have written: with it a window still stays in the caches.
constexpr std::uint64_t k_most_unwritten_bytes = std::uint64_t{512} << 10;

// An output that several threads write to. Most file systems let one of them in at a time: a thread that would have to
// wait goes on with its next piece, as long as it has room for what is not written.
struct SharedOutput {
  OutputFile* file;  // null: what is written is dropped
  std::mutex turn;
};

// Makes segments of a version, hashes them on both ends and writes them. One per thread.
class SegmentWriter {
 public:
  /// With an `origin`, the version's bytes are made of its bytes in place.
  SegmentWriter(const FileVersion& version, const ByteReader* origin, Blake3Tree* origin_tree, Blake3Tree& result_tree,
                SharedOutput& output, StageClock* stages)
      : version_(&version),
        origin_(origin),
        origin_tree_(origin_tree),
        result_tree_(&result_tree),
        source_(origin != nullptr ? origin : &version.bytes()),
        reader_(*source_),
        output_(&output),
        laps_(stages) {}

  void operator()(std::size_t index) {
    const Segment segment = segment_at(version_->identity.size_bytes, index);
    std::optional<Blake3Segment> origin_hash;
    if (origin_ != nullptr) origin_hash.emplace(*origin_tree_, index);
    Blake3Segment result_hash(*result_tree_, index);
    std::uint64_t patched = segment.begin;
    std::uint64_t hashed = segment.begin;
    std::uint64_t written = segment.begin;
    window_.restart(segment.begin);
    laps_.restart();
    for_each_piece(segment, source_->piece_bytes(), [&](const Segment& piece) {
      const auto bytes = window_.extend(piece.size_bytes);
      const bool last = piece.end() == segment.end();
      if (origin_hash) {
        reader_.read(piece.begin, bytes, *origin_hash, laps_);
        patched = patch(patched, last ? segment.end() : version_->rebuilt->block_boundary_before(piece.end()));
      } else {
        source_->read_at(piece.begin, bytes);
        laps_.lap(Stage::read, bytes.size());
        patched = piece.end();
      }
      // The first piece ends in the page where blocks do, and those that follow are as long as what was read.
      const std::uint64_t unit = hashed == segment.begin ? k_memory_page_bytes : Blake3Segment::k_full_width_bytes;
      const std::uint64_t ready = last ? segment.end() : hashed + (patched - hashed) / unit * unit;
      if (ready <= hashed) return;
      const auto result = window_.bytes(hashed, ready);
      result_hash.update(result);
      laps_.lap(Stage::hash, result.size());
      hashed = ready;
      written = write(written, hashed, last);
      window_.drop_before(written);
    });
  }

 private:
  // Patches what the window holds from `from` up to `to`, and returns how far all is patched.
  std::uint64_t patch(std::uint64_t from, std::uint64_t to) {
    if (to <= from) return from;
    version_->rebuilt->patch(from, window_.bytes(from, to));
    laps_.lap(Stage::code, to - from);
    return to;
  }

  // Writes what the window holds from `from` up to `to`, unless that can wait and another thread writes. Returns how
  // far all is written.
  std::uint64_t write(std::uint64_t from, std::uint64_t to, bool last) {
    if (output_->file == nullptr) return to;
    const std::unique_lock turn(output_->turn, std::try_to_lock);
    const bool may_wait = !last && to - from < k_most_unwritten_bytes;
    if (!turn && may_wait) return from;
    output_->file->write_at(from, window_.bytes(from, to));
    laps_.lap(Stage::write, to - from);
    return to;
  }

  const FileVersion* version_;
  const ByteReader* origin_;
  Blake3Tree* origin_tree_;
  Blake3Tree* result_tree_;
  const ByteReader* source_;
  HashingReader reader_;
  SharedOutput* output_;
  Window window_;
  StageLaps laps_;
};

}  // namespace

void require_origins(const std::vector<Origin>& origins, const Execution& execution) {
  for (const Origin& origin : origins) require_origin(origin, digest_of(*origin.file, execution));
}

void OriginProofs::require(const Origin& origin, const Execution& execution) {
  std::unique_lock all(mutex_);
  Proof& proof = proofs_[origin.digest];
  all.unlock();
  const std::lock_guard lock(proof.mutex);
  if (proof.is_right) return;
  require_origin(origin, digest_of(*origin.file, execution));
  proof.is_right = true;
}

void write_version(const FileVersion& version, OutputFile* output, const Execution& execution) {
  OriginProofs proofs;
  write_version(version, output, execution, proofs);
}

void write_version(const FileVersion& version, OutputFile* output, const Execution& execution, OriginProofs& proofs) {
  const ByteReader* origin = version.rebuilt ? version.rebuilt->in_place_origin() : nullptr;
  if (version.origins.size() != 1 || version.origins.front().file.get() != origin) origin = nullptr;
  const bool origins_are_read_first = version.rebuilt && origin == nullptr;
  if (origins_are_read_first) {
    for (const Origin& each : version.origins) proofs.require(each, execution);
  }

  const std::uint64_t size = version.identity.size_bytes;
  if (version.bytes().size_bytes() != size) {
    const std::string what = fmt::format("has {} bytes, {} expected", version.bytes().size_bytes(), size);
    if (version.whole) throw WrongOrigin(version.origins.front(), what);
    throw Error(Fault::corrupt, version.bytes().name(), what);
  }
  Blake3Tree result_tree(size);
  std::optional<Blake3Tree> origin_tree;
  if (origin != nullptr) origin_tree.emplace(size);
  if (output != nullptr) output->reserve(size);
  SharedOutput shared_output{output, {}};
  Blake3Tree* const tree_of_origin = origin_tree ? &*origin_tree : nullptr;
  const auto write_all = [&](const Execution& on, auto make_writer) {
    parallel_in_runs(result_tree.segment_count(), on, [&] {
      return [&, writer = make_writer()](std::size_t index) mutable {
        writer(index);
        execution.progress->advance(segment_at(size, index).size_bytes);
      };
    });
  };
  try {
    if (Device* const device = version.rebuilt ? version.rebuilt->engine()->device() : nullptr) {
      const Execution limited = execution.on(std::min(execution.threads, DeviceSegmentWriter::most_threads(*device)));
      const DeviceSegmentWriter::Files files{version.rebuilt.get(), origin, tree_of_origin, &result_tree, output};
      write_all(limited, [&] { return DeviceSegmentWriter(files, *device, execution.stages); });
    } else {
      write_all(execution, [&] {
        return SegmentWriter(version, origin, tree_of_origin, result_tree, shared_output, execution.stages);
      });
    }
  } catch (const Error& error) {
    // A coding that depends on the base may trip over a wrong one before any digest can say so; and one that was right
    // may have been changed since.
    if (error.fault() == Fault::corrupt && version.rebuilt) require_origins(version.origins, execution);
    throw;
  }
  if (origin != nullptr) require_origin(version.origins.front(), origin_tree->finish());
  const Digest found = result_tree.finish();
  if (version.whole) return require_origin(version.origins.front(), found);
  if (found != version.identity.digest) {
    if (origins_are_read_first) require_origins(version.origins, execution);
    throw Error(Fault::corrupt, version.bytes().name(),
                fmt::format("rebuilds to digest {}, {} expected", found.hex(), version.identity.digest.hex()));
  }
}

}  // namespace wdelta
