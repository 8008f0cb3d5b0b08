// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "delta/description.hpp"
#include "delta/payload_spool.hpp"
#include "engine/group.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// Writes the container of wdelta-delta(5). The header comes first in the file but is known last, so blocks are spooled
/// and copied behind the header by finish(). One thread; memory is what the spool keeps, and the block index: up to
/// three bytes a block, and 64 a group.
class DeltaWriter {
 public:
  /// `path`: the output; nothing appears there before the caller commits what finish() returns. All that is written on
  /// the way has the permissions of a file that is there. Throws where it cannot be written.
  explicit DeltaWriter(std::filesystem::path path);

  /// Begins the entry of the next tensor that changed; tensors come in the order of their bytes in the result.
  void begin_tensor(std::string name);
  /// The next group of the tensor begun last.
  void append_group(const CodedGroup& group);
  /// The next blocks of it, in which nothing changed.
  void append_unchanged_blocks(std::uint64_t count);

  struct Finished {
    OutputFile output;
    std::uint64_t size_bytes;
    Digest digest;       ///< of the delta, as its metadata says it: it names all bytes
    Digest file_digest;  ///< BLAKE3 of the file
  };
  /// `front`: the bytes of the result before its first tensor, or empty when they are those of the first base file.
  /// Copies on all threads: the payload of a dense delta is as large as the checkpoint.
  Finished finish(const DeltaDescription& description, std::span<const std::uint8_t> front, const Execution& execution);

 private:
  struct Group {
    std::uint64_t block_count;
    std::size_t lengths_bytes;  // of its part of `lengths`
    std::uint64_t parameters_bytes = 0;
    // Of a group that has parameters.
    std::size_t reference = 0;
    Strips strips = {};
    std::uint32_t strips_in_batch = 1;
  };
  struct Entry {
    std::string name;
    std::uint64_t size_bytes = 0;
    std::vector<Group> groups;
    std::vector<std::uint8_t> lengths;  // of batches, as the index has them
    std::uint64_t block_count = 0;
  };
  static void append_tensor(const Entry& entry, std::vector<std::uint8_t>& index);
  static std::size_t bundle_length(std::span<const Entry> entries);
  static void append_bundle(std::span<const Entry> bundle, std::vector<std::uint8_t>& index);

  std::filesystem::path path_;
  OutputFile output_;
  PayloadSpool spool_;
  std::vector<Entry> entries_;
};

}  // namespace wdelta
