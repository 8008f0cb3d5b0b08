// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_batch.hpp"
#include "engine/cuda/laws.hpp"

namespace wdelta {
namespace {

using namespace testing;

/// Ascending bounds of up to 16 classes.
Bytes random_bounds(std::mt19937_64& random) {
  Bytes bounds = random_bytes(random, random() % 16);
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

/// Elements whose contexts are few, as those of weights are.
Bytes like_weights(std::size_t count, ElementType type, std::mt19937_64& random) {
  Bytes bytes = random_bytes(random, count * type.width_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = get(bytes.data(), i, type.width_bytes);
    const std::uint64_t context = 120 + random() % 8;
    const int shift = 8 * type.width_bytes - 9;
    put(bytes.data(), i, type.width_bytes,
        shift < 0 ? element : (element & ~(std::uint64_t{255} << shift)) | context << shift);
  }
  return bytes;
}

}  // namespace

DEVICE_LAW("ranks and classes are scalar's for every length to 200, packed without a gap") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    BlockBatch batch(type);
    for (std::size_t count = 0; count <= 200; ++count) {
      for (const double density : {0.1, 1.0}) {
        const Bytes base = random_bytes(random, count * type.width_bytes);
        batch.add(base, changed(base, type, density, random), {random() % 16, random() % 16});
      }
      if (count % 50 == 0) batch.check_ranked(device, random_bounds(random));
    }
    batch.check_ranked(device, random_bounds(random));
  }
}

DEVICE_LAW("ranks and classes are scalar's at the edges of runs, at any alignment and density") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    for (const bool are_weights : {false, true}) {
      BlockBatch batch(type);
      std::size_t skew = 0;
      for (const std::size_t count : {255, 256, 257, 511, 1023, 5000, 65535, 65536}) {
        for (const double density : {0.0, 0.01, 0.5}) {
          const Bytes base =
              are_weights ? like_weights(count, type, random) : random_bytes(random, count * type.width_bytes);
          batch.add(base, changed(base, type, density, random), {skew++ % 16, 0});
        }
      }
      batch.check_ranked(device, are_weights ? Bytes{121, 123, 124, 126, 127} : random_bounds(random));
    }
  }
}

DEVICE_LAW("ranks are scalar's where all elements change and where they have one class, or sixteen") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    for (const Bytes& bounds :
         {Bytes{}, Bytes{255}, Bytes{0, 0, 0}, Bytes{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 120, 127, 128, 129, 200}}) {
      BlockBatch batch(type);
      const Bytes base = random_bytes(random, k_block_elements * type.width_bytes);
      batch.add(base, changed(base, type, 1.0, random), {});
      batch.add(base, changed(base, type, 0.001, random), {});
      batch.check_ranked(device, bounds);
    }
  }
}

DEVICE_LAW("ranks of a block without an element that stays are scalar's, and nothing behind its positions is read") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    BlockBatch batch(type);
    const Bytes base = random_bytes(random, k_block_elements * type.width_bytes);
    Bytes next = base;
    for (std::uint8_t& byte : next) byte ^= 1;
    batch.add(base, next, {});
    batch.check_ranked(device, {64, 192});
  }
}

}  // namespace wdelta
