// SPDX-License-Identifier: Apache-2.0
#include "delta/device_digests.hpp"

#include "base/blake3_kernel.hpp"

#include <array>
#include <cstring>

namespace wdelta {
namespace {

using Value = std::array<std::uint32_t, 8>;
constexpr std::size_t k_ends = 2;
// As hash_subtrees() wants it: so much for each chunk. The ends may share it, for a stream works on one at a time.
constexpr std::size_t k_scratch_bytes = Blake3Tree::k_segment_bytes / k_blake3_chunk_bytes * sizeof(Value);

std::size_t place_of(DeviceDigests::End end) { return static_cast<std::size_t>(end) * sizeof(Value); }

}  // namespace

DeviceDigests::DeviceDigests(Device& device)
    : hashing_(device, DeviceBuffer::Place::device), values_(device, DeviceBuffer::Place::pinned) {
  hashing_.of_size(k_scratch_bytes + k_ends * sizeof(Value));
  values_.of_size(k_ends * sizeof(Value));
}

void DeviceDigests::ask(End end, std::size_t index, const std::uint8_t* bytes, DeviceStream& stream) {
  std::uint8_t* const value = hashing_.begin() + k_scratch_bytes + place_of(end);
  stream.hash_subtrees(bytes, Blake3Tree::k_segment_bytes, 1,
                       std::uint64_t{index} * (Blake3Tree::k_segment_bytes / k_blake3_chunk_bytes), hashing_.begin(),
                       reinterpret_cast<std::uint32_t*>(value));
  stream.download(values_.begin() + place_of(end), value, sizeof(Value));
}

void DeviceDigests::take(End end, std::size_t index, Blake3Tree& tree) const {
  Value value;
  std::memcpy(value.data(), values_.begin() + place_of(end), sizeof value);
  tree.set_subtree(index, value);
}

}  // namespace wdelta
