// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/error.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

using namespace wdelta;

namespace {

constexpr std::size_t k_segment = Blake3Tree::k_segment_bytes;

std::span<const std::uint8_t> segment_of(std::span<const std::uint8_t> bytes, std::size_t index) {
  const std::size_t offset = index * k_segment;
  return bytes.subspan(offset, std::min(k_segment, bytes.size() - offset));
}

std::vector<std::size_t> shuffled(std::size_t count, std::mt19937_64& random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace

TEST_CASE("a BLAKE3 tree, its segments set in any order, gives the digest of the stream, around every boundary") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 7 * k_segment + 1);
  std::vector<std::size_t> sizes = {0, 1, 1023, 1024, 1025, k_segment / 2, k_segment / 2 + 1, bytes.size()};
  for (std::size_t count = 1; count <= 4; ++count) {
    for (const std::size_t size : {-1, 0, 1}) sizes.push_back(count * k_segment + size);
  }
  sizes.push_back(2 * k_segment + random() % k_segment);
  sizes.push_back(5 * k_segment + random() % k_segment);
  for (const std::size_t size : sizes) {
    CAPTURE(size);
    const auto input = std::span(bytes).first(size);
    const Digest expected = blake3(input);
    // The portable kernel is slow; the other tests hold it to the same values.
    for (const Blake3Kernel* kernel : blake3_kernels().first(std::max<std::size_t>(1, blake3_kernels().size() - 1))) {
      Blake3Tree tree(size, *kernel);
      REQUIRE(tree.segment_count() == std::max<std::size_t>(1, (size + k_segment - 1) / k_segment));
      for (const std::size_t index : shuffled(tree.segment_count(), random)) {
        tree.set_segment(index, segment_of(input, index));
      }
      CHECK(tree.finish() == expected);
    }
  }
}

TEST_CASE("a BLAKE3 tree in smaller segments gives the same digest, and knows each of them again") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (const std::size_t cut : {std::size_t{1} << 10, std::size_t{256} << 10, std::size_t{1} << 20}) {
    for (const std::size_t size : {std::size_t{0}, cut - 1, cut, cut + 1, 5 * cut, 7 * cut + random() % cut}) {
      CAPTURE(cut);
      CAPTURE(size);
      auto bytes = testing::random_bytes(random, size);
      Blake3Tree tree(size, Blake3Tree::Cut{cut});
      const auto part = [&](std::size_t index) {
        return std::span(bytes).subspan(index * cut, std::min(cut, size - index * cut));
      };
      for (const std::size_t index : shuffled(tree.segment_count(), random)) tree.set_segment(index, part(index));
      CHECK(tree.finish() == blake3(bytes));
      for (std::size_t index = 0; index < tree.segment_count() && size > 0; ++index) {
        REQUIRE(tree.is_segment(index, part(index)));
        part(index).back() ^= 1;
        REQUIRE_FALSE(tree.is_segment(index, part(index)));
        const Digest before = tree.segment_value(index);
        tree.set_segment(index, part(index));
        REQUIRE(before != tree.segment_value(index));
      }
      CHECK(tree.finish() == blake3(bytes));
    }
  }
}

TEST_CASE("the portable BLAKE3 kernel gives the same tree") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 2 * k_segment + 1);
  Blake3Tree tree(bytes.size(), *blake3_kernels().back());
  for (std::size_t index = 0; index < 3; ++index) tree.set_segment(index, segment_of(bytes, index));
  CHECK(tree.finish() == blake3(bytes));
}

TEST_CASE("threads can set the segments of one BLAKE3 tree at the same time") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 9 * k_segment + 12'345);
  Blake3Tree tree(bytes.size());
  const auto order = shuffled(tree.segment_count(), random);
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t i = first; i < order.size(); i += 4) tree.set_segment(order[i], segment_of(bytes, order[i]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(tree.finish() == blake3(bytes));
}

TEST_CASE("a BLAKE3 tree refuses a segment of the wrong length or number") {
  const std::vector<std::uint8_t> bytes(k_segment + 1);
  Blake3Tree tree(k_segment + 10);
  CHECK_THROWS_AS(tree.set_segment(0, std::span(bytes).first(k_segment - 1)), Error);
  CHECK_THROWS_AS(tree.set_segment(0, bytes), Error);
  CHECK_THROWS_AS(tree.set_segment(1, std::span(bytes).first(9)), Error);
  CHECK_THROWS_AS(tree.set_segment(2, {}), Error);
}

TEST_CASE("a segment hashed piece by piece has the value of the whole, whatever multiples of a unit it is given") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::size_t k_unit = Blake3Segment::k_unit_bytes;
  const auto bytes = testing::random_bytes(random, 2 * k_segment + 3 * k_unit + 777);
  // Up to so many units at a time: single ones, less and more than a kernel hashes at once or a group has.
  for (const std::size_t most : {1, 2, 40, 300, 2000}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, k_unit, k_segment, k_segment + 1, bytes.size()}) {
      CAPTURE(most);
      CAPTURE(size);
      const auto input = std::span(bytes).first(size);
      Blake3Tree tree(size);
      for (const std::size_t index : shuffled(tree.segment_count(), random)) {
        auto left = segment_of(input, index);
        Blake3Segment segment(tree, index);
        CHECK(segment.size_bytes() == left.size());
        while (!left.empty()) {
          const auto piece = left.first(std::min(left.size(), k_unit * (1 + random() % most)));
          segment.update(piece);
          left = left.subspan(piece.size());
        }
      }
      CHECK(tree.finish() == blake3(input));
    }
  }
}

TEST_CASE("a segment that copies has the value of what it copied, among pieces that it does not copy") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::size_t k_unit = Blake3Segment::k_unit_bytes;
  const auto bytes = testing::random_bytes(random, k_segment + 300 * k_unit + 777);
  std::vector<std::uint8_t> copy(Blake3Segment::k_group_bytes);
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    for (const std::size_t size : {std::size_t{1}, 40 * k_unit, k_segment, bytes.size()}) {
      CAPTURE(std::string(blake3_kernel_name(*kernel)));
      CAPTURE(size);
      const auto input = std::span(bytes).first(size);
      Blake3Tree tree(size, *kernel);
      for (const std::size_t index : shuffled(tree.segment_count(), random)) {
        auto left = segment_of(input, index);
        Blake3Segment segment(tree, index);
        while (!left.empty()) {
          const auto piece = left.first(std::min(left.size(), k_unit * (1 + random() % 256)));
          if (random() % 4 == 0) {
            segment.update(piece);
          } else {
            segment.copy_and_update(piece.data(), std::span(copy).first(piece.size()));
            REQUIRE(std::ranges::equal(std::span(copy).first(piece.size()), piece));
          }
          left = left.subspan(piece.size());
        }
      }
      CHECK(tree.finish() == blake3(input));
    }
  }
}

TEST_CASE("a segment takes neither broken pieces nor more than it has") {
  const std::vector<std::uint8_t> bytes(k_segment + 10);
  Blake3Tree tree(bytes.size());
  CHECK_THROWS_AS(Blake3Segment(tree, 2), Error);
  Blake3Segment first(tree, 0);
  CHECK_THROWS_AS(first.update(std::span(bytes).first(Blake3Segment::k_unit_bytes - 1)), Error);
  CHECK_THROWS_AS(first.update(bytes), Error);
  std::vector<std::uint8_t> copy(Blake3Segment::k_group_bytes + Blake3Segment::k_unit_bytes);
  CHECK_THROWS_AS(first.copy_and_update(bytes.data(), copy), Error);
  CHECK_THROWS_AS(first.copy_and_update(bytes.data(), std::span(copy).first(1)), Error);
  Blake3Segment last(tree, 1);
  CHECK_THROWS_AS(last.update(std::span(bytes).first(9)), Error);
  last.update(std::span(bytes).first(10));
  CHECK_THROWS_AS(last.update(std::span(bytes).first(1)), Error);
}
