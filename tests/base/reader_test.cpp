// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/cached_reader.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"
#include "base/reader_digest.hpp"
#include "base/steady_reader.hpp"
#include "testing/counting_reader.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace wdelta {

using testing::fault_of;

TEST_CASE("the digest of a reader is BLAKE3 of its bytes, at every thread count and around the segment size") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::size_t k_segment = Blake3Tree::k_segment_bytes;
  const auto bytes = testing::random_bytes(random, 2 * k_segment + 1);
  testing::ScratchDirectory scratch;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1025}, k_segment - 1, k_segment,
                                 k_segment + 1, 2 * k_segment, 2 * k_segment + 1}) {
    const std::vector<std::uint8_t> content(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const Digest expected = blake3(content);
    const MemoryReader reader(content, "memory");
    for (const unsigned threads : {1u, 2u, 5u}) {
      CAPTURE(size);
      CAPTURE(threads);
      testing::RecordedProgress progress;
      CHECK(digest_of(reader, Execution{threads, &progress, {}}) == expected);
      CHECK(progress.advanced_bytes() == size);
      OutputFile copy(scratch / "copy");
      CHECK(copy_and_digest(reader, copy, Execution{threads, &progress, {}}) == expected);
      copy.commit(Overwrite::yes, Durability::cached);
      const File written = File::open(scratch / "copy");
      CHECK(read_all(written) == content);
      std::vector<std::uint8_t> taken(size, 0xaa);
      StageClock stages;
      Execution timed{threads, &progress, {}};
      timed.stages = &stages;
      const PieceTaker take = [&](std::uint64_t offset, std::span<const std::uint8_t> piece, StageLaps& laps) {
        std::ranges::copy(piece, taken.begin() + static_cast<std::ptrdiff_t>(offset));
        laps.lap(Stage::write, piece.size());
      };
      CHECK(digest_and_take(reader, timed, take) == expected);
      CHECK(taken == content);
      for (const Stage stage : {Stage::read, Stage::hash, Stage::write}) CHECK(stages.total(stage).bytes == size);
    }
  }
}

TEST_CASE("what is read in overlapping parts is made once, by each reader for itself, and forgotten with it") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::size_t k_piece = std::size_t{256} << 10;
  for (const std::size_t size : {std::size_t{1}, k_piece, 3 * k_piece + 5}) {
    const auto bytes = testing::random_bytes(random, size);
    const auto other_bytes = testing::random_bytes(random, size);
    const auto counted = std::make_shared<testing::CountingReader>(bytes);
    {
      const CachedReader cached(counted);
      const CachedReader other(std::make_shared<testing::CountingReader>(other_bytes));
      CHECK(cached.size_bytes() == size);
      CHECK(cached.name() == "counted");
      for (int i = 0; i < 200; ++i) {
        const std::size_t offset = random() % size;
        std::vector<std::uint8_t> part(std::min<std::size_t>(size - offset, random() % (2 * k_piece)));
        for (const auto& [reader, expected] : {std::pair(&cached, &bytes), std::pair(&other, &other_bytes)}) {
          reader->read_at(offset, part);
          REQUIRE(std::equal(part.begin(), part.end(), expected->begin() + static_cast<std::ptrdiff_t>(offset)));
        }
      }
      CHECK(read_all(cached) == bytes);
      CHECK(counted->read_bytes() == size);
    }
    CHECK(read_all(CachedReader(counted)) == bytes);
    CHECK(counted->read_bytes() == 2 * size);
  }
  // More than is kept, and by several threads.
  const auto bytes = testing::random_bytes(random, 600 * k_piece + 7);
  const auto counted = std::make_shared<testing::CountingReader>(bytes);
  const CachedReader large(counted);
  testing::RecordedProgress progress;
  CHECK(digest_of(large, Execution{4, &progress, {}}) == blake3(bytes));
  CHECK(read_all(large) == bytes);
  // Those that were asked for last, 512 of all readers together.
  const CachedReader other(std::make_shared<MemoryReader>(std::vector<std::uint8_t>(1), "other"));
  CHECK(read_all(other).size() == 1);
  const auto read_for = [&](std::uint64_t piece) {
    const std::uint64_t before = counted->read_bytes();
    std::vector<std::uint8_t> byte(1);
    large.read_at(piece * k_piece + 5, byte);
    return counted->read_bytes() - before;
  };
  for (std::uint64_t piece = 600; piece > 600 - 510; --piece) CHECK(read_for(piece) == 0);
  CHECK(read_for(600 - 511) == k_piece);
}

TEST_CASE("a slice reads its part and nothing else, and must lie inside") {
  const auto whole = std::make_shared<MemoryReader>(testing::bytes_of("0123456789"), "memory");
  for (std::uint64_t offset = 0; offset <= 11; ++offset) {
    for (std::uint64_t size = 0; size <= 11; ++size) {
      const bool inside = offset + size <= 10;
      std::vector<std::uint8_t> bytes;
      const auto fault = fault_of([&] { bytes = read_all(SliceReader(whole, offset, size)); });
      CHECK(fault == (inside ? std::nullopt : std::optional(Fault::corrupt)));
      if (inside) CHECK(testing::text_of(bytes) == std::string("0123456789").substr(offset, size));
    }
  }
  CHECK(fault_of([&] { SliceReader(whole, 1, UINT64_MAX); }) == Fault::corrupt);
  CHECK(fault_of([&] { SliceReader(whole, UINT64_MAX, 2); }) == Fault::corrupt);
}

TEST_CASE("a reader seen at another size is cut off, or goes on with zero bytes, whatever is read of it") {
  const auto whole = std::make_shared<MemoryReader>(testing::bytes_of("0123456789"), "memory");
  for (std::uint64_t size = 0; size <= 25; ++size) {
    const ResizedReader resized(whole, size);
    CHECK(resized.size_bytes() == size);
    CHECK(resized.name() == "memory");
    std::string expected = "0123456789";
    expected.resize(size, '\0');
    for (std::uint64_t offset = 0; offset <= size; ++offset) {
      for (std::uint64_t length = 0; offset + length <= size; ++length) {
        std::vector<std::uint8_t> bytes(length, 0xaa);
        resized.read_at(offset, bytes);
        if (testing::text_of(bytes) != expected.substr(offset, length)) FAIL("size ", size, ", offset ", offset);
      }
    }
  }
  // Behind the end nothing of the other reader is read, however far.
  std::vector<std::uint8_t> bytes(3, 0xaa);
  ResizedReader(whole, UINT64_MAX).read_at(UINT64_MAX - 3, bytes);
  CHECK(bytes == std::vector<std::uint8_t>(3));
}

TEST_CASE("what is seen through another reader is noticed to have changed") {
  testing::ScratchDirectory scratch;
  testing::put_file(scratch / "file", "0123456789");
  const auto file = std::make_shared<File>(File::open(scratch / "file"));
  const SliceReader slice(file, 2, 3);
  const ResizedReader resized(file, 20);
  const CachedReader cached(file);
  const SteadyReader steady(file, testing::SilentExecution(1));
  const ByteReader* const readers[] = {&slice, &resized, &cached, &steady};
  for (const ByteReader* reader : readers) CHECK(fault_of([&] { reader->check_unchanged(); }) == std::nullopt);
  testing::put_file(scratch / "file", "01234567");
  for (const ByteReader* reader : readers) CHECK(fault_of([&] { reader->check_unchanged(); }) == Fault::local);
}

}  // namespace wdelta
