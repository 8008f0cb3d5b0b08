// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"

#include "base/blake3_kernel.hpp"
#include "base/blake3_node.hpp"
#include "base/cpu.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace wdelta {

namespace {

struct KernelList {
  std::array<const Blake3Kernel*, 5> kernels{};  // the fastest first
  std::size_t count = 0;

  KernelList() {
#if defined(__x86_64__)
    const CpuFeatures& features = cpu_features();
    if (features.avx512) {
      kernels[count++] = &k_blake3_avx512;
      kernels[count++] = &k_blake3_avx512_moved;
      kernels[count++] = &k_blake3_avx512_moved_near;
      std::swap(kernels[0], kernels[features.near_prefetches ? 2 : features.avx512_on_two_ports ? 1 : 0]);
    }
    if (features.avx2) kernels[count++] = &k_blake3_avx2;
#endif
    kernels[count++] = &k_blake3_scalar;
  }
};

std::array<std::uint32_t, 8> key_words(const Blake3Key& key) {
  std::array<std::uint32_t, 8> words{};
  for (std::size_t i = 0; i < key.size(); ++i) words[i / 4] |= std::uint32_t{key[i]} << (8 * (i % 4));
  return words;
}

}  // namespace

std::span<const Blake3Kernel* const> blake3_kernels() {
  static const KernelList list;
  return std::span(list.kernels).first(list.count);
}

const char* blake3_kernel_name(const Blake3Kernel& kernel) { return kernel.name; }

Blake3::Blake3(const Blake3Kernel& kernel) : Blake3(kernel, std::to_array(k_blake3_iv), 0, 0) {}

Blake3 Blake3::keyed(const Blake3Key& key, const Blake3Kernel& kernel) {
  return Blake3(kernel, key_words(key), k_blake3_keyed, 0);
}

Blake3::Blake3(const Blake3Kernel& kernel, const Words& key, std::uint32_t flags, std::uint64_t first_chunk)
    : kernel_(&kernel), key_(key), flags_(flags), next_chunk_(first_chunk) {}

Blake3::Blake3(const Blake3& other) : Blake3(*other.kernel_, other.key_, other.flags_, other.next_chunk_) {
  *this = other;
}

// Copies no more of the stack and the buffer than is in use.
Blake3& Blake3::operator=(const Blake3& other) {
  kernel_ = other.kernel_;
  key_ = other.key_;
  flags_ = other.flags_;
  next_chunk_ = other.next_chunk_;
  stack_size_ = other.stack_size_;
  buffered_bytes_ = other.buffered_bytes_;
  std::copy_n(other.stack_.begin(), stack_size_, stack_.begin());
  std::copy_n(other.buffer_.begin(), buffered_bytes_, buffer_.begin());
  return *this;
}

// At least one byte always stays in the buffer: whether the last chunk is part of the root is known only at the end.
void Blake3::update(std::span<const std::uint8_t> bytes) {
  if (buffered_bytes_ > 0) {
    const std::size_t size = std::min(bytes.size(), k_buffer_bytes - buffered_bytes_);
    std::copy_n(bytes.begin(), size, buffer_.begin() + buffered_bytes_);
    buffered_bytes_ += size;
    bytes = bytes.subspan(size);
    if (bytes.empty()) return;
    push_subtree(buffer_.data(), k_buffer_bytes / k_blake3_chunk_bytes);
    buffered_bytes_ = 0;
  }
  while (bytes.size() > k_buffer_bytes) {
    // The largest subtree that begins here. At chunk 0 every size does.
    std::uint64_t count = std::min(std::bit_floor((bytes.size() - 1) / k_blake3_chunk_bytes), k_blake3_subtree_chunks);
    if (next_chunk_ != 0) count = std::min(count, std::uint64_t{1} << std::countr_zero(next_chunk_));
    push_subtree(bytes.data(), count);
    bytes = bytes.subspan(count * k_blake3_chunk_bytes);
  }
  std::copy(bytes.begin(), bytes.end(), buffer_.begin());
  buffered_bytes_ = bytes.size();
}

Digest Blake3::finish() const { return blake3_digest(last_node().root_value()); }

void Blake3::finish(std::span<std::uint8_t> output) const { last_node().root_output(output); }

void Blake3::push_subtree(const std::uint8_t* bytes, std::size_t chunk_count) {
  push(blake3_subtree(*kernel_, key_, flags_, bytes, chunk_count, next_chunk_), chunk_count);
}

// Joins the subtree with those of its own size before it. More bytes follow, so none of these parents is the root.
void Blake3::push(const Words& value, std::size_t chunk_count) {
  next_chunk_ += chunk_count;
  Words joined = value;
  for (std::uint64_t place = next_chunk_ / chunk_count; stack_size_ > 0 && place % 2 == 0; place /= 2) {
    joined = Node::parent(stack_[--stack_size_], joined, key_, flags_).value();
  }
  stack_[stack_size_++] = joined;
}

// The chunks in the buffer begin at a multiple of their greatest number, so they form a subtree, whole or not.
Blake3::Node Blake3::last_node() const {
  const std::span<const std::uint8_t> bytes = std::span(buffer_).first(buffered_bytes_);
  Node node;
  if (bytes.size() <= k_blake3_chunk_bytes) {
    node = Node::chunk(bytes, key_, next_chunk_, flags_);
  } else {
    std::array<Words, k_buffer_bytes / k_blake3_chunk_bytes> values;
    std::size_t count = bytes.size() / k_blake3_chunk_bytes;
    kernel_->hash_chunks(bytes.data(), count, key_.data(), next_chunk_, flags_, values.front().data());
    const auto rest = bytes.subspan(count * k_blake3_chunk_bytes);
    if (!rest.empty()) {
      values[count] = Node::chunk(rest, key_, next_chunk_ + count, flags_).value();
      ++count;
    }
    node = Node::join(*kernel_, std::span(values).first(count), key_, flags_);
  }
  for (std::size_t left = stack_size_; left > 0; --left) {
    node = Node::parent(stack_[left - 1], node.value(), key_, flags_);
  }
  return node;
}

Digest blake3(std::span<const std::uint8_t> bytes) {
  Blake3 hasher;
  hasher.update(bytes);
  return hasher.finish();
}

Digest blake3(std::string_view text) {
  return blake3(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

}  // namespace wdelta
