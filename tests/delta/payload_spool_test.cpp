// SPDX-License-Identifier: Apache-2.0
#include "delta/payload_spool.hpp"

#include "delta/delta_writer.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <vector>

namespace wdelta {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

namespace {
std::size_t files_in(const std::filesystem::path& directory) {
  const auto files = std::filesystem::directory_iterator(directory);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}
}  // namespace

TEST_CASE("a spool has what was appended, at any offset and length, and its digest, in memory and beyond") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::size_t k_most = PayloadSpool::k_most_held_bytes;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{256} << 10, k_most - 1, k_most, k_most + 1,
                                 k_most + (std::size_t{3} << 20) + 7}) {
    CAPTURE(size);
    const ScratchDirectory scratch;
    const Bytes all = random_bytes(random, size);
    PayloadSpool spool(scratch / "out");
    for (std::size_t at = 0; at < size;) {
      // Mostly as long as a block is, now and then nothing, or more than is worth a call.
      const std::size_t most = random() % 8 == 0 ? std::size_t{1} << 20 : random() % 5000;
      const std::size_t count = std::min(size - at, most == 0 ? 0 : random() % most);
      spool.append(std::span(all).subspan(at, count));
      at += count;
    }
    CHECK(spool.size_bytes() == size);
    CHECK(spool.digest() == blake3(all));
    CHECK(files_in(scratch / "") == (size > k_most ? 1 : 0));
    std::vector<std::size_t> offsets = {0, size / 2, size};
    for (int i = 0; i < 20; ++i) offsets.push_back(random() % (size + 1));
    for (const std::size_t offset : offsets) {
      Bytes part(random() % (size - offset + 1));
      spool.read_at(offset, part);
      CHECK(std::ranges::equal(part, std::span(all).subspan(offset, part.size())));
    }
    Bytes whole(size);
    spool.read_at(0, whole);
    CHECK((whole == all));
  }
}

TEST_CASE("what is written on the way to a delta nobody may read who may not read what it replaces") {
  namespace fs = std::filesystem;
  const ScratchDirectory scratch;
  put_file(scratch / "out", "before");
  constexpr fs::perms k_private = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(scratch / "out", k_private);
  const DeltaWriter writer(scratch / "out");
  PayloadSpool spool(scratch / "out");
  spool.append(Bytes(PayloadSpool::k_most_held_bytes));
  spool.append(Bytes(1));
  CHECK(files_in(scratch / "") == 3);
  for (const fs::directory_entry& file : fs::directory_iterator(scratch / ""))
    CHECK(file.status().permissions() == k_private);
}

}  // namespace wdelta
