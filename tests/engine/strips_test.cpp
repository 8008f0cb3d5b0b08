// SPDX-License-Identifier: Apache-2.0
#include "engine/strips.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace wdelta {

TEST_CASE("strips follow one another, end where the tensor's blocks say, and know their blocks") {
  for (std::uint32_t size = 1; size <= k_most_blocks_in_strip; size *= 2) {
    for (std::uint64_t first = 0; first < 2 * k_most_blocks_in_strip; ++first) {
      for (std::uint64_t count = 1; count < 4 * k_most_blocks_in_strip; ++count) {
        const Strips strips{first, count, size};
        std::uint64_t next = 0;
        for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
          const IndexRange blocks = strips.blocks_of(strip);
          REQUIRE(blocks.first == next);
          REQUIRE(blocks.end > blocks.first);
          for (next = blocks.first; next < blocks.end; ++next) {
            REQUIRE(strips.of(next) == strip);
            REQUIRE((first + next) / size == (first + blocks.first) / size);
          }
          REQUIRE((next == count || (first + next) % size == 0));
        }
        REQUIRE(next == count);
      }
    }
  }
}

TEST_CASE("a group of as many blocks as there are numbers has as many strips as that makes") {
  constexpr std::uint64_t k_most = std::numeric_limits<std::uint64_t>::max();
  CHECK(Strips{0, k_most, 1}.count() == k_most);
  CHECK(Strips{7, k_most, 8}.count() == k_most / 8 + 2);
  CHECK(Strips{8, k_most, 8}.count() == k_most / 8 + 1);
  CHECK(Strips{0, 0, 8}.count() == 0);
}

}  // namespace wdelta
