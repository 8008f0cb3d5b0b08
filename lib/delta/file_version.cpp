// SPDX-License-Identifier: Apache-2.0
#include "delta/file_version.hpp"

#include "base/parallel.hpp"
#include "base/reader_digest.hpp"
#include "base/segments.hpp"

#include <algorithm>
#include <fmt/format.h>
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

// A base as the delta sees it. Deltas of opaque files that see it alike are resolved together, block by block; else one
// reads what the other makes.
std::shared_ptr<const RebuiltFile> seen_by(const DeltaDescription& delta, const FileVersion& base) {
  if (delta.opaque == nullptr) return base.rebuilt ? base.rebuilt : RebuiltFile::from_file(base.whole);
  const auto layout = SafetensorsHeader::of_bytes(delta.result.size_bytes, *delta.opaque);
  if (base.rebuilt && base.rebuilt->header().is_laid_out_like(layout)) return base.rebuilt;
  return RebuiltFile::from_bytes(base.reader(), delta.result.size_bytes, *delta.opaque);
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
  throw Error(origin.fault, origin.file->name(),
              fmt::format("{}: digest {}, {} expected", what, found.hex(), origin.digest.hex()));
}

void require_origins(const std::vector<Origin>& origins, const Execution& execution) {
  for (const Origin& origin : origins) require_origin(origin, digest_of(*origin.file, execution));
}

// Fills `bytes` with segment `index` of the version. In place, the origin's bytes go through the same buffer first,
// where they are hashed.
struct SegmentReader {
  const FileVersion* version;
  const ByteReader* in_place_origin;
  Blake3Tree* origin_tree;

  void operator()(std::size_t index, std::uint64_t begin, std::span<std::uint8_t> bytes) const {
    if (in_place_origin == nullptr) return version->bytes().read_at(begin, bytes);
    in_place_origin->read_at(begin, bytes);
    origin_tree->set_segment(index, bytes);
    version->rebuilt->patch(begin, bytes);
  }
};

}  // namespace

void write_version(const FileVersion& version, OutputFile* output, const Execution& execution) {
  const ByteReader* origin = version.rebuilt ? version.rebuilt->in_place_origin() : nullptr;
  if (version.origins.size() != 1 || version.origins.front().file.get() != origin) origin = nullptr;
  if (version.rebuilt && origin == nullptr) require_origins(version.origins, execution);

  const std::uint64_t size = version.identity.size_bytes;
  if (version.bytes().size_bytes() != size) {
    throw Error(version.origins.front().fault, version.bytes().name(),
                fmt::format("has {} bytes, {} expected", version.bytes().size_bytes(), size));
  }
  Blake3Tree result_tree(size);
  std::optional<Blake3Tree> origin_tree;
  if (origin != nullptr) origin_tree.emplace(size);
  const SegmentReader read{&version, origin, origin_tree ? &*origin_tree : nullptr};
  if (output != nullptr) output->reserve(size);
  try {
    parallel_for(result_tree.segment_count(), execution, [&] {
      return [&, buffer = Buffer()](std::size_t index) mutable {
        const Segment segment = segment_at(size, index);
        const auto bytes = buffer.of_size(segment.size_bytes);
        read(index, segment.begin, bytes);
        result_tree.set_segment(index, bytes);
        if (output != nullptr) output->write_at(segment.begin, bytes);
        execution.progress->advance(bytes.size());
      };
    });
  } catch (const Error& error) {
    // A coding that depends on the base may trip over a wrong one before any digest can say so.
    if (error.fault() == Fault::corrupt && origin != nullptr) require_origins(version.origins, execution);
    throw;
  }
  if (origin != nullptr) require_origin(version.origins.front(), origin_tree->finish());
  const Digest found = result_tree.finish();
  if (version.whole) return require_origin(version.origins.front(), found);
  if (found != version.identity.digest) {
    throw Error(Fault::corrupt, version.bytes().name(),
                fmt::format("rebuilds to digest {}, {} expected", found.hex(), version.identity.digest.hex()));
  }
}

}  // namespace wdelta
