// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"

#include "base/blake3_kernel.hpp"
#include "engine/cuda/laws.hpp"
#include "testing/random.hpp"

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;
using Words = std::vector<std::uint32_t>;

/// By the kernels of base, level by level.
Words values_by_base(std::span<const std::uint8_t> bytes, std::size_t subtree_bytes, std::uint64_t first_chunk) {
  std::size_t count = bytes.size() / k_blake3_chunk_bytes;
  Words values(8 * count);
  k_blake3_scalar.hash_chunks(bytes.data(), count, k_blake3_iv, first_chunk, 0, values.data());
  for (std::size_t size = k_blake3_chunk_bytes; size < subtree_bytes; size *= 2) {
    count /= 2;
    k_blake3_scalar.hash_parents(values.data(), count, k_blake3_iv, 0, values.data());
  }
  values.resize(8 * count);
  return values;
}

Words values_on(Device& device, std::span<const std::uint8_t> bytes, std::size_t subtree_bytes,
                std::uint64_t first_chunk, std::size_t skew) {
  const auto stream = device.make_stream();
  const OnDevice<std::uint8_t> there(device, *stream, bytes, skew);
  const OnDevice<std::uint8_t> scratch(device, bytes.size() / k_blake3_chunk_bytes * 32);
  const OnDevice<std::uint32_t> values(device, bytes.size() / subtree_bytes * 8);
  stream->hash_subtrees(there.begin(), subtree_bytes, bytes.size() / subtree_bytes, first_chunk, scratch.begin(),
                        values.begin());
  return values.get(*stream);
}

}  // namespace

DEVICE_LAW("BLAKE3 of subtrees of every size to 4 MiB is base's, wherever they lie in the stream") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Bytes bytes = random_bytes(random, std::size_t{4} << 20);
  for (std::size_t subtree = 1024; subtree <= bytes.size(); subtree *= 2) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
      if (subtree * count > bytes.size()) continue;
      CAPTURE(subtree);
      CAPTURE(count);
      const auto part = std::span(bytes).first(subtree * count);
      const std::uint64_t first_chunk = count == 1 ? 0 : (std::uint64_t{1} << 32) - 1;
      CHECK(values_on(device, part, subtree, first_chunk, 0) == values_by_base(part, subtree, first_chunk));
    }
  }
}

DEVICE_LAW("BLAKE3 of chunks is base's for every number of them to 300 and any alignment") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Bytes bytes = random_bytes(random, 300 * 1024);
  for (std::size_t count = 1; count <= 300; count += count < 40 ? 1 : 13) {
    CAPTURE(count);
    const auto part = std::span(bytes).first(count * 1024);
    CHECK(values_on(device, part, 1024, 5, count % 16) == values_by_base(part, 1024, 5));
  }
}

DEVICE_LAW("BLAKE3 of a subtree of 64 MiB, which takes three launches, is base's") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Bytes bytes = random_bytes(random, std::size_t{64} << 20);
  CHECK(values_on(device, bytes, bytes.size(), 0, 0) == values_by_base(bytes, bytes.size(), 0));
}

DEVICE_LAW("the digest of 64 MiB comes out of its subtrees on the device") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  // Two launches, of 7 and 8 levels, and the root.
  const std::size_t half = std::size_t{32} << 20;
  const Bytes bytes = random_bytes(random, 2 * half);
  const Words values = values_on(device, bytes, half, 0, 3);
  std::uint32_t root[16];
  blake3_compress(k_blake3_iv, values.data(), 0, k_blake3_block_bytes, k_blake3_parent | k_blake3_root, root);
  const Digest digest = blake3(bytes);
  CHECK(std::memcmp(root, &digest, sizeof(digest)) == 0);
}

}  // namespace wdelta
