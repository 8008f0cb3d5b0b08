// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_batch.hpp"
#include "engine/cuda/laws.hpp"

#include <algorithm>
#include <numeric>

namespace wdelta {
namespace {

using namespace testing;

}  // namespace

DEVICE_LAW("changes are what scalar finds, for every length to 200, alignment and element type") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    BlockBatch batch(type);
    const auto add = [&](std::size_t count, double density, Skews skews) {
      const Bytes base = random_bytes(random, count * type.width_bytes);
      batch.add(base, changed(base, type, density, random), skews);
      if (batch.size() == 256) batch.check_found(device);
    };
    for (std::size_t count = 0; count <= 200; ++count) {
      for (std::size_t skew = 0; skew < 16; ++skew) {
        add(count, skew % 4 == 0 ? 1.0 : 0.1, {skew, random() % 16});
      }
    }
    for (const std::size_t count : {1, 15, 16, 17, 33}) {
      for (std::size_t skew = 0; skew < 256; ++skew) add(count, 0.3, {skew / 16, skew % 16});
    }
    batch.check_found(device);
  }
}

DEVICE_LAW("changes are what scalar finds at the edges of tiles, sparse and dense") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    BlockBatch batch(type);
    // A tile is 8 KiB on each side.
    const std::size_t tile = 8192 / type.width_bytes;
    for (const std::size_t count : {tile - 1, tile, tile + 1, 2 * tile - 7, 3 * tile + 3}) {
      for (const double density : {0.0, 0.001, 0.1, 0.5, 1.0}) {
        const Bytes base = random_bytes(random, count * type.width_bytes);
        batch.add(base, changed(base, type, density, random), {random() % 16, random() % 16});
      }
    }
    batch.check_found(device);
  }
}

DEVICE_LAW("changes are what scalar finds in many whole blocks at once, at any density") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    BlockBatch batch(type);
    for (const double density : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      for (const std::size_t skew : {0, 5}) {
        const Bytes base = random_bytes(random, k_block_elements * type.width_bytes);
        batch.add(base, changed(base, type, density, random), {skew, skew == 0 ? 0 : random() % 16});
      }
    }
    batch.check_found(device);
  }
}

DEVICE_LAW("every one of the 65,536 bf16 patterns changes into another as scalar finds") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::vector<std::uint16_t> patterns(k_block_elements);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  const auto bytes_of = [&] {
    Bytes bytes(2 * patterns.size());
    std::memcpy(bytes.data(), patterns.data(), bytes.size());
    return bytes;
  };
  const Bytes in_order = bytes_of();
  for (const ElementType type : {k_bf16, ElementType{2, ElementKind::integer}}) {
    BlockBatch batch(type);
    std::ranges::shuffle(patterns, random);
    const Bytes shuffled = bytes_of();
    batch.add(in_order, shuffled, {});
    batch.add(shuffled, in_order, {});
    batch.check_found(device);
  }
}

DEVICE_LAW("nothing is read beside a block, and nobody need ask for contexts") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const auto stream = device.make_stream();
  for (const ElementType type : k_element_types) {
    for (std::size_t count = 1; count <= 70; ++count) {
      // Each side ends where its memory does: at the forbidden page of an emulated device.
      const std::size_t bytes = count * type.width_bytes;
      const std::size_t distance = (1024 - bytes) % 256;
      const Bytes base = random_bytes(random, bytes);
      const OnDevice<std::uint8_t> from(device, *stream, base, distance);
      const OnDevice<std::uint8_t> to(device, *stream, changed(base, type, 1.0, random), distance);
      const DeviceBlock block = {from.begin(), to.begin(), static_cast<std::uint32_t>(count)};
      const OnDevice<DeviceBlock> blocks(device, *stream, std::span(&block, 1));
      const OnDevice<std::uint32_t> counts(device, 1);
      const OnDevice<std::uint16_t> positions(device, k_device_block_changes);
      const OnDevice<std::uint64_t> steps(device, k_device_block_changes);
      stream->find_changes(type, blocks.begin(), 1, {counts.begin(), positions.begin(), steps.begin(), nullptr});
      CHECK(counts.get(*stream).front() <= count);
    }
  }
}

}  // namespace wdelta
