// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace wdelta {

struct Blake3Kernel;  // blake3_kernel.hpp

/// The kernels that are compiled in and that this processor can run, fastest first; the last one is the portable one.
std::span<const Blake3Kernel* const> blake3_kernels();
const char* blake3_kernel_name(const Blake3Kernel& kernel);

using Blake3Key = std::array<std::uint8_t, 32>;

/// BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs), hash and keyed mode, over bytes that arrive in any pieces.
/// Not thread-safe; copyable, so that a common prefix can be shared. Give large pieces: whole MiB run the kernel at
/// its full width.
class Blake3 {
 public:
  explicit Blake3(const Blake3Kernel& kernel = *blake3_kernels().front());
  static Blake3 keyed(const Blake3Key& key, const Blake3Kernel& kernel = *blake3_kernels().front());
  Blake3(const Blake3& other);
  Blake3& operator=(const Blake3& other);

  void update(std::span<const std::uint8_t> bytes);
  /// The digest of all bytes so far; more may follow.
  Digest finish() const;
  /// Extendable output: fills `output`, whatever its length, from the start of the output stream.
  void finish(std::span<std::uint8_t> output) const;

 private:
  friend class Blake3Tree;
  friend class Blake3Segment;
  using Words = std::array<std::uint32_t, 8>;
  struct Node;

  // So much is gathered before it is hashed, so that small pieces fill a kernel too.
  static constexpr std::size_t k_buffer_bytes = std::size_t{16} << 10;
  // Enough for 2^64 bytes in chunks of 2^10.
  static constexpr std::size_t k_stack_depth = 64 - 10;

  Blake3(const Blake3Kernel& kernel, const Words& key, std::uint32_t flags, std::uint64_t first_chunk);
  void push_subtree(const std::uint8_t* bytes, std::size_t chunk_count);
  void push(const Words& value, std::size_t chunk_count);
  Node last_node() const;

  const Blake3Kernel* kernel_;
  Words key_;
  std::uint32_t flags_;
  std::uint64_t next_chunk_;  // the number, in the whole stream, of the first chunk in the buffer
  std::size_t stack_size_ = 0;
  std::size_t buffered_bytes_ = 0;                   // not 0 once anything came: the last chunk may be the root's
  std::array<Words, k_stack_depth> stack_;           // of finished subtrees, the largest first
  std::array<std::uint8_t, k_buffer_bytes> buffer_;  // like the stack, left uninitialised
};

/// The digest of `bytes`, or of a text's, one thread.
Digest blake3(std::span<const std::uint8_t> bytes);
Digest blake3(std::string_view text);

/// The digest of a stream of known length whose segments are hashed in any order, by any threads. A segment is
/// `k_segment_bytes` long (the last one may be shorter) and begins at a multiple of that: a whole subtree of BLAKE3's
/// tree, so its chaining value needs nothing but its own bytes and its place.
class Blake3Tree {
 public:
  static constexpr std::size_t k_segment_bytes = std::size_t{4} << 20;
  /// Smaller segments: a power of two from 1 KiB to k_segment_bytes.
  struct Cut {
    std::size_t segment_bytes = k_segment_bytes;
  };

  explicit Blake3Tree(std::uint64_t size_bytes, const Blake3Kernel& kernel = *blake3_kernels().front());
  Blake3Tree(std::uint64_t size_bytes, Cut cut, const Blake3Kernel& kernel = *blake3_kernels().front());

  std::size_t segment_count() const;  ///< at least 1: an empty stream has one empty segment
  /// Hashes segment `index`. Safe to call from several threads for different segments. `bytes` must be exactly that
  /// segment's length.
  void set_segment(std::size_t index, std::span<const std::uint8_t> bytes);
  /// Whether segment `index` is a subtree that is whole and not all of the stream: then its value depends on nothing
  /// but its bytes and its place, and may come from elsewhere.
  bool is_subtree(std::size_t index) const;
  /// Instead of set_segment() for such a one: its chaining value.
  void set_subtree(std::size_t index, const std::array<std::uint32_t, 8>& value);
  /// Whether segment `index`, which was set, has these bytes.
  bool is_segment(std::size_t index, std::span<const std::uint8_t> bytes) const;
  /// What set_segment() made of a segment; at another place, or in a stream of another length, it may be another.
  Digest segment_value(std::size_t index) const;
  /// Every segment must have been set.
  Digest finish() const;

 private:
  friend class Blake3Segment;

  std::array<std::uint32_t, 8> value_of(std::size_t index, std::span<const std::uint8_t> bytes) const;

  const Blake3Kernel* kernel_;
  std::uint64_t size_bytes_;
  std::size_t segment_bytes_;
  std::vector<std::array<std::uint32_t, 8>> values_;  // one per segment; when there is but one, the digest
};

/// One segment of a Blake3Tree, hashed piece by piece, so that each piece can be hashed while it is in the cache that
/// it was read into. One thread; the tree must outlive it.
class Blake3Segment {
 public:
  /// What is hashed for itself, and the most of these that a kernel hashes at once.
  static constexpr std::size_t k_unit_bytes = 1024;
  static constexpr std::size_t k_full_width_bytes = 32 * k_unit_bytes;
  /// What is reduced together.
  static constexpr std::size_t k_group_bytes = std::size_t{256} << 10;

  /// Throws internal when the tree has no segment `index`, or smaller ones.
  Blake3Segment(Blake3Tree& tree, std::size_t index);
  Blake3Segment(const Blake3Segment&) = delete;
  Blake3Segment& operator=(const Blake3Segment&) = delete;

  /// The segment's next bytes: a multiple of k_unit_bytes, or all that are left; of k_full_width_bytes costs least. The
  /// tree has the segment's value once it was given the last of them.
  void update(std::span<const std::uint8_t> bytes);
  /// The same of up to k_group_bytes that another process may be writing to: copies those at `from` to `copy`, and
  /// hashes what is in the copy. A signal handler may leave it by siglongjmp(3) while it reads; then it is as if it had
  /// not been called, but for what is in `copy`.
  void copy_and_update(const std::uint8_t* from, std::span<std::uint8_t> copy);
  /// Whether it is a subtree that is whole and not all of the stream.
  bool is_subtree() const { return !rest_; }
  /// update() of up to k_group_bytes of a subtree, which a signal handler may leave in the same way.
  void update_in_place(std::span<const std::uint8_t> bytes);
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  friend class Blake3Tree;
  std::uint64_t first_chunk() const;
  void require_next(std::size_t size_bytes) const;
  std::size_t hash_chunks(std::span<const std::uint8_t> bytes);
  template <typename Hash>
  void hash_group(std::size_t size_bytes, Hash hash);
  void finish();
  [[noreturn]] void refuse(std::size_t size_bytes) const;

  // What is left of a group once it is reduced as far as a kernel runs at full width.
  static constexpr std::size_t k_values_of_group = 16;
  static constexpr std::size_t k_groups = Blake3Tree::k_segment_bytes / k_group_bytes;

  Blake3Tree* tree_;
  std::size_t index_;
  std::size_t size_bytes_ = 0;
  std::size_t done_bytes_ = 0;
  std::optional<Blake3> rest_;  // of a segment that is no whole subtree
  // Left uninitialised: chunks of a group that is not whole, and, for a moment, of the next.
  std::array<std::uint32_t, 2 * 8 * k_group_bytes / k_unit_bytes> group_;
  std::array<std::uint32_t, 8 * k_values_of_group * k_groups> values_;
};

}  // namespace wdelta
