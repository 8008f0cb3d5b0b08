// SPDX-License-Identifier: Apache-2.0
#include "engine/bits.hpp"

#include "elements.hpp"

#include <doctest/doctest.h>

namespace wdelta {
namespace {

using namespace testing;

TEST_CASE("whole bytes among bits are as numbers of eight bits, wherever they begin") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::uint32_t before = 0; before < 32; ++before) {
    for (const std::size_t count : {0, 1, 7, 300}) {
      const std::vector<std::uint8_t> values = random_bytes(random, count);
      const auto front = static_cast<std::uint32_t>(random() & ((1ULL << before) - 1));
      const auto written = [&](auto write) {
        std::vector<std::uint8_t> bytes;
        BitWriter bits(bytes);
        bits.write(front, before);
        write(bits);
        bits.write(5, 3);
        bits.finish();
        return bytes;
      };
      CAPTURE(before);
      CAPTURE(count);
      CHECK(written([&](BitWriter& bits) { bits.write_bytes(values); }) == written([&](BitWriter& bits) {
              for (const std::uint8_t value : values) bits.write(value, 8);
            }));
    }
  }
}

}  // namespace
}  // namespace wdelta
