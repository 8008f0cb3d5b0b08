// SPDX-License-Identifier: Apache-2.0
#include "base/window.hpp"

#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

using namespace wdelta;

namespace {

// The byte that a file of these tests has at an offset.
std::uint8_t byte_at(std::uint64_t offset) { return static_cast<std::uint8_t>(offset * 0x9e3779b97f4a7c15 >> 56); }

void extend(Window& window, std::size_t size_bytes) {
  const std::uint64_t begin = window.end();
  const auto bytes = window.extend(size_bytes);
  REQUIRE(bytes.size() == size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = byte_at(begin + i);
}

bool holds_file(Window& window) {
  const auto bytes = window.bytes(window.begin(), window.end());
  if (bytes.size() != window.end() - window.begin()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(window.begin() + i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a window holds the bytes of the file between its begin and its end, however it moves") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  Window window;
  for (int restart = 0; restart < 20; ++restart) {
    window.restart(random() % (std::uint64_t{1} << 40));
    for (int step = 0; step < 30; ++step) {
      extend(window, random() % 300'000);
      REQUIRE(holds_file(window));
      // As its users do, it now and then keeps more than it has room for.
      if (random() % 4 != 0)
        window.drop_before(window.end() - std::min(window.end() - window.begin(), random() % 200'000));
      REQUIRE(holds_file(window));
    }
  }
}

TEST_CASE("bytes in a window are aligned as they are in the file") {
  Window window;
  window.restart(12'345'678);
  for (int step = 0; step < 50; ++step) {
    const std::uint64_t begin = window.end();
    const auto bytes = window.extend(100'001);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == begin % 4096);
    window.drop_before(window.end() - 7);
  }
}

TEST_CASE("a window that keeps little stays where it is in memory, and so in the cache") {
  Window window;
  window.restart(0);
  const auto* const first = window.extend(std::size_t{256} << 10).data();
  for (int step = 0; step < 100; ++step) {
    window.drop_before(window.end() - 100'000);
    const auto* const bytes = window.extend(std::size_t{256} << 10).data();
    CHECK(bytes >= first);
    CHECK(bytes < first + (std::size_t{1} << 20));
  }
}
