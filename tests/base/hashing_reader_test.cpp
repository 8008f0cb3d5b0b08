// SPDX-License-Identifier: Apache-2.0
#include "base/hashing_reader.hpp"

#include "base/file.hpp"
#include "base/output_file.hpp"
#include "base/segments.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <thread>
#include <unistd.h>

using namespace wdelta;

namespace {

void write(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, Overwrite::yes, Durability::cached);
}

// Reads a whole file in pieces of what piece_bytes() says, from 1 KiB on; calls `before` with the offset of each.
template <typename PieceBytes, typename Before>
std::vector<std::uint8_t> read_hashed(const ByteReader& file, Blake3Tree& tree, PieceBytes piece_bytes, Before before) {
  HashingReader reader(file, HashingReader::Mapping::where_possible);
  StageLaps laps(nullptr);
  std::vector<std::uint8_t> bytes(file.size_bytes());
  for (std::size_t index = 0; index < tree.segment_count(); ++index) {
    const Segment segment = segment_at(file.size_bytes(), index);
    Blake3Segment hash(tree, index);
    for (std::uint64_t at = segment.begin; at < segment.end();) {
      before(at);
      const std::size_t size = std::min<std::size_t>(piece_bytes() / 1024 * 1024, segment.end() - at);
      reader.read(at, std::span(bytes).subspan(at, size), hash, laps);
      at += size;
    }
  }
  return bytes;
}

Digest hashed_in_place(const ByteReader& file) {
  HashingReader reader(file, HashingReader::Mapping::where_possible);
  StageLaps laps(nullptr);
  Buffer memory;
  Blake3Tree tree(file.size_bytes());
  for (std::size_t index = 0; index < tree.segment_count(); ++index) {
    Blake3Segment hash(tree, index);
    reader.hash(index, memory, hash, laps);
  }
  return tree.finish();
}

// A file seen through what a test does in between.
class WatchedFile : public ByteReader {
 public:
  explicit WatchedFile(const std::filesystem::path& path) : file_(File::open(path)) {}

  std::uint64_t size_bytes() const override { return file_.size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override { file_.read_at(offset, bytes); }
  const std::string& name() const override { return file_.name(); }
  std::size_t piece_bytes() const override { return file_.piece_bytes(); }
  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    return file_.map(offset, size_bytes);
  }

 private:
  File file_;
};

// The stretch that is wanted first cannot be mapped.
class MappedLater final : public WatchedFile {
 public:
  using WatchedFile::WatchedFile;

  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    return ++times_asked == 1 ? std::nullopt : WatchedFile::map(offset, size_bytes);
  }

  mutable int times_asked = 0;
};

// Cut off to `left` bytes at the last moment before segment `cut_in` is hashed, when it is mapped already.
class CutOff final : public WatchedFile {
 public:
  CutOff(const std::filesystem::path& path, std::uint64_t left, int cut_in)
      : WatchedFile(path), left_(left), to_come_(cut_in + 1) {}

  std::size_t piece_bytes() const override {
    if (--to_come_ == 0) REQUIRE(::truncate(name().c_str(), static_cast<off_t>(left_)) == 0);
    return WatchedFile::piece_bytes();
  }

 private:
  std::uint64_t left_;
  mutable int to_come_;
};

}  // namespace

TEST_CASE("a file that is mapped, or its part, is read and hashed as any other, in pieces of any size") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  const auto all = testing::random_bytes(random, 3 * Blake3Tree::k_segment_bytes + 5000);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1025}, std::size_t{70'000}, Blake3Tree::k_segment_bytes - 1,
        Blake3Tree::k_segment_bytes, Blake3Tree::k_segment_bytes + 1, 2 * Blake3Tree::k_segment_bytes,
        3 * Blake3Tree::k_segment_bytes + 4999}) {
    CAPTURE(size);
    write(scratch / "file", std::span(all).first(size));
    const auto file = std::make_shared<File>(File::open(scratch / "file"));
    const std::size_t skipped = std::min<std::size_t>(size, random() % 10'000);
    const auto slice = std::make_shared<SliceReader>(file, skipped, size - skipped);
    const auto shorter = std::make_shared<ResizedReader>(file, size - skipped);
    const auto longer = std::make_shared<ResizedReader>(file, size + skipped);
    for (const std::shared_ptr<const ByteReader>& reader :
         std::initializer_list<std::shared_ptr<const ByteReader>>{file, slice, shorter, longer}) {
      const auto expected = read_all(*reader);
      for (const std::size_t largest : {std::size_t{32'768}, std::size_t{262'144}, Blake3Tree::k_segment_bytes}) {
        Blake3Tree tree(reader->size_bytes());
        const auto read = read_hashed(
            *reader, tree, [&] { return 1024 + random() % largest; }, [](std::uint64_t) {});
        CHECK(read == expected);
        CHECK(tree.finish() == blake3(expected));
      }
      CHECK(hashed_in_place(*reader) == blake3(expected));
    }
  }
}

TEST_CASE("a file that is cut off while it is mapped became shorter, and nothing worse") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, 2 * Blake3Tree::k_segment_bytes);
  bool was_mapped = false;
  for (const std::size_t size : {Blake3Tree::k_segment_bytes, 2 * Blake3Tree::k_segment_bytes}) {
    for (int round = 0; round < 12; ++round) {
      write(scratch / "file", std::span(bytes).first(size));
      const File file = File::open(scratch / "file");
      const auto mapped = file.map(0, size);
      was_mapped = was_mapped || (mapped && mapped->bring(0, size));
      const std::uint64_t left = random() % (size - 4096);
      const std::uint64_t when = random() % size;
      bool cut = false;
      Blake3Tree tree(size);
      const auto message = testing::message_of([&] {
        read_hashed(
            file, tree, [&] { return 1024 + random() % 400'000; },
            [&](std::uint64_t at) {
              if (cut || at < when) return;
              cut = true;
              REQUIRE(::truncate(file.name().c_str(), static_cast<off_t>(left)) == 0);
            });
      });
      CAPTURE(left);
      CAPTURE(when);
      // What was read before may be all that it had.
      if (cut) CHECK(message == file.name() + ": became shorter while it was read");
    }
  }
  WARN_MESSAGE(was_mapped, "this file system maps nothing, or has no preadv2(2) that does not wait");
}

TEST_CASE("a file that is cut off and grows again while its pages are brought does no harm") {
  MappedStretch::allow();
  testing::ScratchDirectory scratch;
  constexpr std::size_t k_size = std::size_t{512} << 10;
  write(scratch / "file", std::vector<std::uint8_t>(k_size));
  const File file = File::open(scratch / "file");
  std::atomic<bool> done = false;
  bool always = true;
  std::thread cutter([&] {
    while (!done) {
      for (const std::size_t size : {std::size_t{0}, k_size})
        always = ::truncate(file.name().c_str(), static_cast<off_t>(size)) == 0 && always;
    }
  });
  int times_brought = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto mapped = file.map(0, k_size);
    if (mapped && mapped->bring(0, k_size)) ++times_brought;
  }
  done = true;
  cutter.join();
  CHECK(always);
  WARN_MESSAGE(times_brought > 0, "this file system maps nothing, or has no preadv2(2) that does not wait");
}

TEST_CASE("a file that is cut off while it is hashed where it lies became shorter") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, 11 * Blake3Tree::k_segment_bytes);
  for (const int cut_in : {0, 1, 7, 8, 9}) {
    CAPTURE(cut_in);
    write(scratch / "file", bytes);
    const std::uint64_t left = random() % ((static_cast<std::size_t>(cut_in) + 1) * Blake3Tree::k_segment_bytes);
    CAPTURE(left);
    const CutOff file(scratch / "file", left, cut_in);
    CHECK(testing::message_of([&] { hashed_in_place(file); }) == file.name() + ": became shorter while it was read");
  }
}

TEST_CASE("where one segment cannot be mapped, one soon after it is") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, 12 * Blake3Tree::k_segment_bytes);
  write(scratch / "file", bytes);
  const MappedLater file(scratch / "file");
  CHECK(hashed_in_place(file) == blake3(bytes));
  CHECK(file.times_asked > 1);
}

TEST_CASE("a segment is missed that can be mapped and is not in the page cache, and no other") {
  MappedStretch::allow();
  testing::ScratchDirectory scratch;
  constexpr std::size_t k_segment_bytes = Blake3Tree::k_segment_bytes;
  write(scratch / "file", std::vector<std::uint8_t>(k_segment_bytes));
  const auto misses = [](const ByteReader& file) {
    HashingReader reader(file, HashingReader::Mapping::where_possible);
    StageLaps laps(nullptr);
    Buffer memory;
    Blake3Tree tree(file.size_bytes());
    Blake3Segment hash(tree, 0);
    testing::message_of([&] { reader.hash(0, memory, hash, laps); });
    return reader.has_missed();
  };
  const File file = File::open(scratch / "file");
  CHECK(!misses(file));
  CHECK(!misses(MappedLater(scratch / "file")));
  const bool can_map = file.map(0, k_segment_bytes).has_value();
  WARN_MESSAGE(can_map, "this file system maps nothing");
  // No cache has what a file does not have any more.
  REQUIRE(::truncate(file.name().c_str(), k_segment_bytes / 2) == 0);
  CHECK(misses(file) == can_map);
}

TEST_CASE("the digest is that of the bytes that were read, while somebody writes to the file") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  constexpr std::size_t k_size = Blake3Tree::k_segment_bytes + 100'000;
  write(scratch / "file", testing::random_bytes(random, k_size));
  const File file = File::open(scratch / "file");
  const Fd written(::open(file.name().c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(written);
  std::atomic<bool> done = false;
  std::thread writer([&, own = std::mt19937_64(random())]() mutable {
    std::vector<std::uint8_t> some(8192);
    while (!done) {
      std::ranges::fill(some, static_cast<std::uint8_t>(own()));
      static_cast<void>(::pwrite(written.get(), some.data(), some.size(), static_cast<off_t>(own() % (k_size - 8192))));
    }
  });
  bool always = true;
  for (int round = 0; round < 20; ++round) {
    Blake3Tree tree(k_size);
    const auto read = read_hashed(
        file, tree, [] { return std::size_t{256} << 10; }, [](std::uint64_t) {});
    always = always && tree.finish() == blake3(read);
  }
  done = true;
  writer.join();
  CHECK(always);
}

TEST_CASE("no more is mapped at a time than there is room for, and files beyond that are read") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  constexpr std::size_t k_segment_bytes = Blake3Tree::k_segment_bytes;
  const auto bytes = testing::random_bytes(random, 2 * k_segment_bytes + 5000);
  write(scratch / "file", bytes);
  const File file = File::open(scratch / "file");
  auto same = file.map(0, k_segment_bytes);
  REQUIRE(same);
  while (MappedStretch::files_lie_in_pages()) REQUIRE(same->bring(0, k_segment_bytes));  // brought already, mostly
  same.reset();
  std::vector<MappedStretch> all;
  std::size_t share = MappedStretch::share_bytes();
  CHECK(share > k_segment_bytes);
  for (std::size_t mapped = 0; mapped < MappedStretch::k_most_bytes; mapped += k_segment_bytes) {
    auto stretch = file.map(0, k_segment_bytes);
    REQUIRE(stretch);
    all.push_back(std::move(*stretch));
    CHECK(MappedStretch::share_bytes() < share);
    share = MappedStretch::share_bytes();
  }
  CHECK(share == 0);
  CHECK_FALSE(file.map(0, k_segment_bytes));
  CHECK(hashed_in_place(file) == blake3(bytes));
  all.pop_back();
  CHECK(file.map(0, k_segment_bytes));
  CHECK(file.map(k_segment_bytes, k_segment_bytes));
}

TEST_CASE("of files that lie in single pages no more stretches are mapped at a time than pay, and the rest is read") {
  MappedStretch::allow();
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, Blake3Tree::k_segment_bytes + 5000);
  write(scratch / "file", bytes);
  const File file = File::open(scratch / "file");
  for (int i = 0; i < 1000 && !MappedStretch::files_lie_in_pages(); ++i) {
    auto stretch = file.map(0, Blake3Tree::k_segment_bytes);
    REQUIRE(stretch);
    REQUIRE(stretch->bring(0, Blake3Tree::k_segment_bytes));
  }
  if (!MappedStretch::files_lie_in_pages()) {
    WARN_MESSAGE(false, "files lie in larger pieces here");
    return;
  }
  std::vector<MappedStretch> all;
  for (unsigned i = 0; i < MappedStretch::k_most_in_pages; ++i) {
    auto stretch = file.map(0, Blake3Tree::k_segment_bytes);
    REQUIRE(stretch);
    all.push_back(std::move(*stretch));
  }
  CHECK_FALSE(file.map(0, Blake3Tree::k_segment_bytes));
  CHECK(hashed_in_place(file) == blake3(bytes));
  all.pop_back();
  CHECK(file.map(0, Blake3Tree::k_segment_bytes));
  // What has been brought already needs no faults.
  while (MappedStretch::files_lie_in_pages()) REQUIRE(all.front().bring(0, Blake3Tree::k_segment_bytes));
  auto one_more = file.map(0, Blake3Tree::k_segment_bytes);
  REQUIRE(one_more);
  CHECK(file.map(0, Blake3Tree::k_segment_bytes));
}
