// SPDX-License-Identifier: Apache-2.0
#include "delta/device_digests.hpp"

#include "base/blake3_kernel.hpp"

#include <array>
#include <cstring>

namespace wdelta {
namespace {

using Value = std::array<std::uint32_t, 8>;
constexpr std::size_t k_ends = 2;
constexpr std::uint64_t k_segment_chunks = Blake3Tree::k_segment_bytes / k_blake3_chunk_bytes;

// As hash_subtrees() wants it: so much for each chunk. The ends may share it, for a stream works on one at a time.
std::size_t scratch_bytes(std::size_t segments) { return segments * k_segment_chunks * sizeof(Value); }

std::size_t index_of(DeviceDigests::End end) { return static_cast<std::size_t>(end); }

}  // namespace

DeviceDigests::DeviceDigests(Device& device, std::size_t most)
    : most_(most), hashing_(device, DeviceBuffer::Place::device), values_(device, DeviceBuffer::Place::pinned) {
  hashing_.of_size(scratch_bytes(most) + k_ends * most * sizeof(Value));
  values_.of_size(k_ends * most * sizeof(Value));
}

std::size_t DeviceDigests::place_of(End end) const { return index_of(end) * most_ * sizeof(Value); }

void DeviceDigests::ask(End end, std::size_t first, std::size_t count, const std::uint8_t* bytes,
                        DeviceStream& stream) {
  asked_[index_of(end)] = {first, count};
  if (count == 0) return;
  std::uint8_t* const values = hashing_.begin() + scratch_bytes(most_) + place_of(end);
  stream.hash_subtrees(bytes, Blake3Tree::k_segment_bytes, count, first * k_segment_chunks, hashing_.begin(),
                       reinterpret_cast<std::uint32_t*>(values));
  stream.download(values_.begin() + place_of(end), values, count * sizeof(Value));
}

void DeviceDigests::take(End end, Blake3Tree& tree) const {
  const Asked& asked = asked_[index_of(end)];
  for (std::size_t i = 0; i < asked.count; ++i) {
    Value value;
    std::memcpy(value.data(), values_.begin() + place_of(end) + i * sizeof(Value), sizeof value);
    tree.set_subtree(asked.first + i, value);
  }
}

}  // namespace wdelta
