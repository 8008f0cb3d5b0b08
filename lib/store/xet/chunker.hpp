// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/xet/gear.hpp"
#include "store/xet/xet_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace wdelta {

constexpr std::size_t k_shortest_chunk_bytes = 8192;  // the last one of a file may be shorter
constexpr std::size_t k_longest_chunk_bytes = 131072;

/// A piece of a file, cut where its content says, so that equal stretches of files become equal chunks.
struct XetChunk {
  XetHash hash;
  std::span<const std::uint8_t> bytes;  ///< valid during the call that gets it
};

/// Cuts files into chunks and hashes them on all threads of an execution. Keeps its memory from file to file: one
/// stretch, at most 16 MiB, and a bit for each of its bytes.
class XetChunker {
 public:
  /// `execution` must outlive it.
  explicit XetChunker(const Execution& execution);
  /// `stretch_bytes`, a multiple of 64, is what is read at a time; the chunks do not depend on it.
  XetChunker(const Execution& execution, std::size_t stretch_bytes);

  /// Gives the chunks of `file` to `take` in order, on this thread.
  void cut(const ByteReader& file, const std::function<void(const XetChunk&)>& take);

 private:
  void read_and_scan(const ByteReader& file, std::uint64_t offset, std::size_t size_bytes);
  void hash_chunks();

  const Execution* execution_;
  std::size_t stretch_bytes_;
  Buffer memory_;
  std::uint8_t* stretch_ = nullptr;  // what was read last; before it lies what is not cut yet
  GearMarks marks_;                  // of the stretch
  std::vector<XetChunk> chunks_;     // cut from it
};

/// The file hash, the name of a file's content on the Hub, when nothing is to be uploaded.
XetHash xet_file_hash(const ByteReader& file, const Execution& execution);

}  // namespace wdelta
