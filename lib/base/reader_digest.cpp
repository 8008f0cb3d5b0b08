// SPDX-License-Identifier: Apache-2.0
#include "base/reader_digest.hpp"

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/parallel.hpp"
#include "base/segments.hpp"

namespace wdelta {

namespace {

template <typename Each>
Digest digest_and(const ByteReader& reader, const Execution& execution, Each each) {
  Blake3Tree tree(reader.size_bytes());
  parallel_for(tree.segment_count(), execution, [&] {
    return [&, buffer = Buffer()](std::size_t index) mutable {
      const Segment segment = segment_at(reader.size_bytes(), index);
      const auto bytes = buffer.of_size(segment.size_bytes);
      reader.read_at(segment.begin, bytes);
      tree.set_segment(index, bytes);
      each(segment.begin, bytes);
      execution.progress->advance(bytes.size());
    };
  });
  return tree.finish();
}

}  // namespace

Digest digest_of(const ByteReader& reader, const Execution& execution) {
  return digest_and(reader, execution, [](std::uint64_t, std::span<const std::uint8_t>) {});
}

Digest copy_and_digest(const ByteReader& reader, OutputFile& copy, const Execution& execution) {
  copy.reserve(reader.size_bytes());
  return digest_and(reader, execution,
                    [&](std::uint64_t offset, std::span<const std::uint8_t> bytes) { copy.write_at(offset, bytes); });
}

}  // namespace wdelta
