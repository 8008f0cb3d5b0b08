// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose tensors lie in other files than before: each file is made of all files of the base.
#include "base/blake3.hpp"
#include "base/file.hpp"
#include "delta/base_files.hpp"
#include "delta/deltas.hpp"
#include "testing/counting_reader.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

using namespace testing;

namespace {

constexpr std::size_t k_shards = 8;

/// The same tensors in shards by layer and by expert.
struct Transposed {
  explicit Transposed(std::mt19937_64& random) {
    std::vector<std::vector<TestTensor>> by_layer(k_shards);
    std::vector<std::vector<TestTensor>> by_expert(k_shards);
    for (std::size_t layer = 0; layer < k_shards; ++layer) {
      for (std::size_t expert = 0; expert < k_shards; ++expert) {
        const std::string name = fmt::format("layers.{}.experts.{}", layer, expert);
        by_layer[layer].push_back(weights(name, 10'000, random));
        by_expert[expert].push_back(by_layer[layer].back());
      }
    }
    for (std::size_t i = 0; i < k_shards; ++i) {
      base.push_back({fmt::format("layer-{}.safetensors", i), safetensors_file(by_layer[i])});
      next.push_back({fmt::format("expert-{}.safetensors", i), safetensors_file(by_expert[i])});
    }
  }

  std::uint64_t size_bytes() const {
    std::uint64_t total = 0;
    for (const PlacedFile& file : next) total += file.bytes.size();
    return total;
  }

  std::vector<PlacedFile> base;
  std::vector<PlacedFile> next;
};

using Counted = std::map<std::string, std::shared_ptr<const CountingReader>>;

Counted counted(const std::vector<PlacedFile>& files) {
  Counted readers;
  for (const PlacedFile& file : files) readers[file.path] = std::make_shared<CountingReader>(file.bytes);
  return readers;
}

std::uint64_t read_bytes(const Counted& readers) {
  std::uint64_t total = 0;
  for (const auto& [path, reader] : readers) total += reader->read_bytes();
  return total;
}

Checkpoint checkpoint_of(const Counted& readers) {
  std::vector<CheckpointFile> files;
  for (const auto& [path, reader] : readers) {
    const auto open = [counted = reader]() -> std::shared_ptr<const ByteReader> { return counted; };
    files.push_back({path, reader->size_bytes(), false, open, std::nullopt, std::nullopt});
  }
  return Checkpoint("base", std::move(files));
}

MadeDelta delta_of(const BaseFiles& base, const PlacedFile& next) {
  const auto reader = reader_of(next);
  return make_delta(base.for_place(next.path, *base.header_of(next.path, *reader)), next.path, reader, {});
}

}  // namespace

TEST_CASE("files that are each made of all files of a base read these a few times, however many there are") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Transposed checkpoint(random);
  const std::uint64_t size_bytes = checkpoint.size_bytes();
  std::vector<Bytes> deltas;
  {
    const Counted readers = counted(checkpoint.base);
    const BaseFiles base(checkpoint_of(readers));
    for (const PlacedFile& next : checkpoint.next) {
      deltas.push_back(delta_of(base, next).bytes);
      CHECK(open_delta(deltas.back())->description().base.size() == k_shards);
    }
    // Their tensors, their digests, and of each new file the one that is most like it.
    CHECK(read_bytes(readers) < 7 * size_bytes / 2);
  }
  const Counted readers = counted(checkpoint.base);
  OriginProofs proofs;
  for (std::size_t i = 0; i < k_shards; ++i) {
    const auto delta = open_delta(deltas[i]);
    std::vector<FileVersion> bases;
    for (const FileIdentity& wanted : delta->description().base)
      bases.push_back(whole_version(wanted, readers.at(wanted.path), Fault::base_mismatch));
    write_version(delta_version(delta, bases, engines().back()), nullptr, SilentExecution(2), proofs);
  }
  CHECK(read_bytes(readers) < 5 * size_bytes / 2);
}

TEST_CASE("a base that changes after a file was compared with it: the next delta has the digest of what is there") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  Transposed checkpoint(random);
  const ScratchDirectory scratch;
  for (const PlacedFile& file : checkpoint.base) put_file(scratch / file.path, file.bytes);
  const BaseFiles base(Checkpoint::open(scratch.path()));
  PlacedFile& changed = checkpoint.base[3];
  const auto digest_of_changed = [&](const MadeDelta& made) {
    for (const FileIdentity& file : made.change.description.base) {
      if (file.path == changed.path) return file.digest;
    }
    return Digest();
  };
  for (int i = 0; i < 2; ++i) CHECK(digest_of_changed(delta_of(base, checkpoint.next[0])) == blake3(changed.bytes));
  changed.bytes.back() ^= 1;
  put_file(scratch / changed.path, changed.bytes);
  const MadeDelta made = delta_of(base, checkpoint.next.back());
  CHECK(digest_of_changed(made) == blake3(changed.bytes));
  CHECK((apply_delta(made.bytes, checkpoint.base) == checkpoint.next.back().bytes));
  CHECK(fault_of([&] { base.check_unchanged(); }) == Fault::local);
}

TEST_CASE("an origin that changes after it was proven is what the next file's failure is blamed on") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  Transposed checkpoint(random);
  std::vector<std::shared_ptr<const DeltaReader>> deltas;
  for (const PlacedFile& next : checkpoint.next) deltas.push_back(open_delta(make_delta(checkpoint.base, next).bytes));
  OriginProofs proofs;
  const auto write = [&](std::size_t index) {
    std::vector<FileVersion> bases;
    for (const FileIdentity& wanted : deltas[index]->description().base) {
      const auto file = std::ranges::find(checkpoint.base, wanted.path, &PlacedFile::path);
      bases.push_back(whole_version(wanted, reader_of(*file), Fault::base_mismatch));
    }
    write_version(delta_version(deltas[index], bases, engines().back()), nullptr, SilentExecution(1), proofs);
  };
  write(0);
  checkpoint.base[3].bytes.back() ^= 1;  // of the last expert
  CHECK_NOTHROW(write(1));
  CHECK(fault_of([&] { write(k_shards - 1); }) == Fault::base_mismatch);
}

}  // namespace wdelta
