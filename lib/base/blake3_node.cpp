// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_node.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {

namespace {

std::uint8_t byte_of(std::uint32_t word, std::size_t index) { return static_cast<std::uint8_t>(word >> (8 * index)); }

// Halves `count` chaining values, a power of two, in place until `goal` are left.
void reduce(const Blake3Kernel& kernel, const std::uint32_t* key, std::uint32_t flags, std::uint32_t* values,
            std::size_t count, std::size_t goal) {
  for (; count > goal; count /= 2) kernel.hash_parents(values, count / 2, key, flags, values);
}

}  // namespace

Blake3::Node Blake3::Node::chunk(std::span<const std::uint8_t> bytes, const Words& key, std::uint64_t number,
                                 std::uint32_t flags) {
  Node node{key, {}, number, 0, flags | k_blake3_chunk_start};
  for (;;) {
    const std::size_t size = std::min(bytes.size(), k_blake3_block_bytes);
    node.block = {};
    for (std::size_t i = 0; i < size; ++i) node.block[i / 4] |= std::uint32_t{bytes[i]} << (8 * (i % 4));
    node.block_bytes = static_cast<std::uint32_t>(size);
    bytes = bytes.subspan(size);
    if (bytes.empty()) break;
    node.chaining_value = node.value();
    node.flags = flags;
  }
  node.flags |= k_blake3_chunk_end;
  return node;
}

Blake3::Node Blake3::Node::parent(const Words& left, const Words& right, const Words& key, std::uint32_t flags) {
  Node node{key, {}, 0, k_blake3_block_bytes, flags | k_blake3_parent};
  std::copy(left.begin(), left.end(), node.block.begin());
  std::copy(right.begin(), right.end(), node.block.begin() + 8);
  return node;
}

// Level by level, an odd one at the end going up as it is. That is BLAKE3's tree: every left subtree is the largest
// power of two that leaves something for the right.
Blake3::Node Blake3::Node::join(const Blake3Kernel& kernel, std::span<Words> values, const Words& key,
                                std::uint32_t flags) {
  while (values.size() > 2) {
    const std::size_t pairs = values.size() / 2;
    kernel.hash_parents(values.front().data(), pairs, key.data(), flags, values.front().data());
    if (values.size() % 2 == 1) values[pairs] = values.back();
    values = values.first((values.size() + 1) / 2);
  }
  return parent(values.front(), values.back(), key, flags);
}

Blake3::Words Blake3::Node::value() const {
  std::uint32_t output[16];
  blake3_compress(chaining_value.data(), block.data(), counter, block_bytes, flags, output);
  Words words;
  std::copy(output, output + words.size(), words.begin());
  return words;
}

Blake3::Words Blake3::Node::root_value() const {
  Node root = *this;
  root.counter = 0;
  root.flags |= k_blake3_root;
  return root.value();
}

void Blake3::Node::root_output(std::span<std::uint8_t> output) const {
  for (std::uint64_t number = 0; !output.empty(); ++number) {
    std::uint32_t words[16];
    blake3_compress(chaining_value.data(), block.data(), number, block_bytes, flags | k_blake3_root, words);
    const std::size_t size = std::min(output.size(), sizeof words);
    for (std::size_t i = 0; i < size; ++i) output[i] = byte_of(words[i / 4], i % 4);
    output = output.subspan(size);
  }
}

std::size_t blake3_group(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key, std::uint32_t flags,
                         std::span<const std::uint8_t> chunks, std::uint64_t first_chunk, std::uint32_t* values) {
  std::uint32_t group[8 * k_blake3_group_chunks];
  const std::size_t count = chunks.size() / k_blake3_chunk_bytes;
  kernel.hash_chunks(chunks.data(), count, key.data(), first_chunk, flags, group);
  return blake3_group_reduced(kernel, key, flags, group, count, values);
}

void blake3_copied_chunks(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key, std::uint32_t flags,
                          const std::uint8_t* chunks, std::uint64_t first_chunk, std::span<std::uint8_t> copy,
                          std::uint32_t* values) {
  const std::size_t count = copy.size() / k_blake3_chunk_bytes;
  std::size_t done = 0;
  if (kernel.copy_and_hash_chunks != nullptr) {
    done = count / k_blake3_copied_chunks * k_blake3_copied_chunks;
    kernel.copy_and_hash_chunks(chunks, done, key.data(), first_chunk, flags, copy.data(), values);
  }
  // So few that they are in a near cache still when they are hashed.
  for (std::size_t some; done < count; done += some) {
    some = std::min(count - done, k_blake3_copied_chunks);
    std::uint8_t* const copied = copy.data() + done * k_blake3_chunk_bytes;
    std::memcpy(copied, chunks + done * k_blake3_chunk_bytes, some * k_blake3_chunk_bytes);
    kernel.hash_chunks(copied, some, key.data(), first_chunk + done, flags, values + 8 * done);
  }
}

std::size_t blake3_group_reduced(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                 std::uint32_t flags, std::uint32_t* group, std::size_t count, std::uint32_t* values) {
  const std::size_t left = std::min(count, k_blake3_group_values);
  reduce(kernel, key.data(), flags, group, count, left);
  std::copy_n(group, 8 * left, values);
  return left;
}

std::array<std::uint32_t, 8> blake3_reduced(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                            std::uint32_t flags, std::uint32_t* values, std::size_t count) {
  reduce(kernel, key.data(), flags, values, count, 1);
  std::array<std::uint32_t, 8> value;
  std::copy_n(values, value.size(), value.begin());
  return value;
}

// Two levels: what the groups leave is reduced together.
std::array<std::uint32_t, 8> blake3_subtree(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                            std::uint32_t flags, const std::uint8_t* bytes, std::size_t chunk_count,
                                            std::uint64_t first_chunk) {
  std::uint32_t left[8 * k_blake3_group_values * k_blake3_subtree_chunks / k_blake3_group_chunks];
  std::size_t left_count = 0;
  for (std::size_t chunk = 0; chunk < chunk_count; chunk += k_blake3_group_chunks) {
    const std::size_t count = std::min(k_blake3_group_chunks, chunk_count - chunk);
    const std::span chunks(bytes + chunk * k_blake3_chunk_bytes, count * k_blake3_chunk_bytes);
    left_count += blake3_group(kernel, key, flags, chunks, first_chunk + chunk, left + 8 * left_count);
  }
  return blake3_reduced(kernel, key, flags, left, left_count);
}

Digest blake3_digest(const std::array<std::uint32_t, 8>& words) {
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) digest.bytes[i] = byte_of(words[i / 4], i % 4);
  return digest;
}

}  // namespace wdelta
