// SPDX-License-Identifier: Apache-2.0
// usage: bench-hash-file THREADS FILE...
//        bench-hash-file hash|copy read|map FILE
// Prints what b3sum prints, by the library's own reading and hashing: for timing one against the other. In the second
// form one thread hashes bytes, or copies them into cache as well, where read(2) puts them or from where they are
// mapped: for HashingReader, which has to know what is faster.
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hashing_reader.hpp"
#include "base/mapped_stretch.hpp"
#include "base/reader_digest.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace {

using namespace wdelta;

Digest digest_by(const ByteReader& file, bool is_copied) {
  HashingReader reader(file, HashingReader::Mapping::where_possible);
  Blake3Tree tree(file.size_bytes());
  StageLaps laps(nullptr);
  Buffer memory;
  for (std::size_t index = 0; index < tree.segment_count(); ++index) {
    Blake3Segment hash(tree, index);
    if (!is_copied) {
      reader.hash(index, memory, hash, laps);
      continue;
    }
    for_each_piece(segment_at(file.size_bytes(), index), file.piece_bytes(), [&](const Segment& piece) {
      reader.read(piece.begin, memory.of_size(piece.size_bytes), hash, laps);
    });
  }
  return tree.finish();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view first = argc > 1 ? argv[1] : "1";
  if (argc == 4 && (first == "hash" || first == "copy")) {
    if (std::string_view(argv[2]) == "map") MappedStretch::allow();  // else nothing is mapped
    fmt::print("{}  {}\n", digest_by(File::open(argv[3]), first == "copy").hex(), argv[3]);
    return 0;
  }
  MappedStretch::allow();
  NoProgress silent;
  const Execution execution{static_cast<unsigned>(std::atoi(first.data())), &silent, {}};
  for (int i = 2; i < argc; ++i) {
    const File file = File::open(argv[i]);
    fmt::print("{}  {}\n", digest_of(file, execution).hex(), argv[i]);
  }
  return 0;
} catch (const wdelta::Error& error) {
  fmt::print(stderr, "{}: {}\n", error.object(), error.what());
  return 1;
}
