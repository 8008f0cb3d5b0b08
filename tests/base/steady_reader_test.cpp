// SPDX-License-Identifier: Apache-2.0
#include "base/steady_reader.hpp"

#include "base/file.hpp"
#include "testing/counting_reader.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <fstream>
#include <thread>

namespace wdelta {

using testing::fault_of;
using testing::ScratchDirectory;
using testing::SilentExecution;

namespace {

void overwrite(const std::string& path, std::uint64_t offset, std::uint8_t byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte));
}

}  // namespace

TEST_CASE("a steady reader has the file's digest and its bytes, in whatever pieces they are read") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::size_t k_stretch = std::size_t{256} << 10;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, k_stretch, k_stretch + 1, 40 * k_stretch + 12'345}) {
    CAPTURE(size);
    const auto file = std::make_shared<MemoryReader>(testing::random_bytes(random, size), "file");
    const auto bytes = read_all(*file);
    const SteadyReader steady(file, SilentExecution(3));
    CHECK(steady.digest() == blake3(bytes));
    CHECK(read_all(steady) == bytes);
    std::atomic<bool> wrong = false;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, own = std::mt19937_64(random())]() mutable {
        for (int i = 0; i < 60 && size > 0; ++i) {
          const std::uint64_t offset = own() % size;
          std::vector<std::uint8_t> part(own() % std::min<std::uint64_t>(size - offset, 3 * k_stretch) + 1);
          part.resize(std::min<std::uint64_t>(part.size(), size - offset));
          steady.read_at(offset, part);
          if (!std::ranges::equal(part, std::span(bytes).subspan(offset, part.size()))) wrong = true;
        }
      });
    }
    threads.clear();
    CHECK_FALSE(wrong);
  }
}

TEST_CASE("a steady reader keeps a few stretches for who reads small pieces, and no more however many are read") {
  constexpr std::uint64_t k_stretch = std::uint64_t{256} << 10;
  constexpr std::uint64_t k_kept = 32;
  constexpr std::uint64_t k_count = 2 * k_kept;
  const auto file = std::make_shared<testing::CountingReader>(std::vector<std::uint8_t>(k_count * k_stretch));
  const SteadyReader steady(file, SilentExecution(1));
  /// Bytes that are read of the file for one of a stretch.
  const auto read_for = [&](std::uint64_t stretch) {
    const std::uint64_t before = file->read_bytes();
    std::vector<std::uint8_t> byte(1);
    steady.read_at(stretch * k_stretch + 5, byte);
    return file->read_bytes() - before;
  };
  for (std::uint64_t stretch = 0; stretch < k_count; ++stretch) CHECK(read_for(stretch) == k_stretch);
  for (std::uint64_t stretch = k_count - k_kept; stretch < k_count; ++stretch) CHECK(read_for(stretch) == 0);
  CHECK(read_for(0) == k_stretch);
}

TEST_CASE("a steady reader gives nothing of a stretch that was written to since, and all that was not") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, 3'000'000);
  testing::put_file(scratch / "weights", testing::text_of(bytes));
  const auto file = std::make_shared<File>(File::open(scratch / "weights"));
  const SteadyReader steady(file, SilentExecution(2));
  const std::uint64_t at = random() % bytes.size();
  CAPTURE(at);
  overwrite((scratch / "weights").string(), at, bytes[at] ^ 1);
  std::size_t refused = 0;
  for (std::uint64_t offset = 0; offset < bytes.size(); offset += 100'000) {
    std::vector<std::uint8_t> part(std::min<std::uint64_t>(100'000, bytes.size() - offset));
    const auto fault = fault_of([&] { steady.read_at(offset, part); });
    const bool touches = offset <= at && at < offset + part.size();
    if (touches) CHECK(fault == Fault::local);
    if (fault) ++refused;
    if (!fault) CHECK(std::ranges::equal(part, std::span(bytes).subspan(offset, part.size())));
  }
  CHECK(refused <= 5);
  overwrite((scratch / "weights").string(), at, bytes[at]);
  CHECK(read_all(steady) == bytes);
}

}  // namespace wdelta
