// SPDX-License-Identifier: Apache-2.0
#include "base/cursor.hpp"

#include "testing/fault.hpp"
#include "testing/random.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using testing::fault_of;

namespace {
std::vector<std::uint8_t> varint(std::uint64_t value) {
  std::vector<std::uint8_t> bytes;
  append_varint(bytes, value);
  return bytes;
}
std::uint64_t read_varint(const std::vector<std::uint8_t>& bytes) { return Cursor(bytes).varint(); }
}  // namespace

TEST_CASE("every varint reads back, in as few bytes as its bits need") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (int i = 0; i < 50; ++i) {
      // Exactly `bits` bits, the edges first.
      const std::uint64_t top = bits == 0 ? 0 : std::uint64_t{1} << (bits - 1);
      const std::uint64_t below = top == 0 ? 0 : top - 1;
      const std::uint64_t value = i == 0 ? top : i == 1 ? top | below : top | (random() & below);
      const auto bytes = varint(value);
      CAPTURE(value);
      REQUIRE(bytes.size() == std::max(1u, (bits + 6) / 7));
      Cursor cursor(bytes);
      REQUIRE(cursor.varint() == value);
      REQUIRE(cursor.at_end());
    }
  }
}

TEST_CASE("a varint that is cut anywhere is refused") {
  for (unsigned shift = 7; shift < 64; shift += 7) {
    auto bytes = varint(std::uint64_t{1} << shift);
    while (!bytes.empty()) {
      bytes.pop_back();
      CHECK(fault_of([&] { read_varint(bytes); }) == Fault::corrupt);
    }
  }
}

TEST_CASE("a varint longer than needed, longer than ten bytes or of 2^64 and more is refused") {
  for (std::size_t length = 1; length <= 9; ++length) {
    std::vector<std::uint8_t> padded(length, 0x81);
    padded.push_back(0);
    CHECK(fault_of([&] { read_varint(padded); }) == Fault::corrupt);
  }
  for (unsigned last = 2; last < 256; ++last) {
    std::vector<std::uint8_t> over(9, 0xff);
    over.push_back(static_cast<std::uint8_t>(last));
    over.push_back(0x01);
    CHECK(fault_of([&] { read_varint(over); }) == Fault::corrupt);
  }
  std::vector<std::uint8_t> largest(9, 0xff);
  largest.push_back(1);
  CHECK(read_varint(largest) == UINT64_MAX);
}

TEST_CASE("any bytes that read as a varint are the one way to write it") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = testing::random_bytes(random, 1 + random() % 11);
    for (std::uint8_t& byte : bytes) byte = random() % 3 == 0 ? byte & 0x7f : byte | 0x80;
    Cursor cursor(bytes);
    std::uint64_t value = 0;
    if (fault_of([&] { value = cursor.varint(); })) continue;
    const auto again = varint(value);
    REQUIRE(again.size() <= bytes.size());
    REQUIRE(std::equal(again.begin(), again.end(), bytes.begin()));
  }
}

TEST_CASE("a cursor gives exactly the bytes there are") {
  const std::vector<std::uint8_t> bytes = {1, 2, 3, 4, 5};
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::uint64_t second = 0; second <= bytes.size() + 1; ++second) {
      Cursor cursor(bytes);
      const auto taken = cursor.take(first);
      CHECK(taken.data() == bytes.data());
      CHECK(taken.size() == first);
      const bool there = second <= bytes.size() - first;
      std::size_t got = 0;
      const auto fault = fault_of([&] { got = cursor.take(second).size(); });
      CHECK(got == (there ? second : 0));
      CHECK(fault == (there ? std::nullopt : std::optional(Fault::corrupt)));
      CHECK(cursor.at_end() == (first + (there ? second : 0) == bytes.size()));
    }
  }
  Cursor cursor(bytes);
  CHECK(fault_of([&] { cursor.take(UINT64_MAX); }) == Fault::corrupt);
}

}  // namespace wdelta
