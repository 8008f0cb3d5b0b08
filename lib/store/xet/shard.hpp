// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/xet/xorb.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wdelta {

/// A stretch of a file: chunks `first_chunk` … `end_chunk`-1 of one xorb.
struct XetTerm {
  XetHash xorb;
  std::uint32_t size_bytes = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t end_chunk = 0;
  XetHash verification;
};

/// A file as the Hub puts it together: one stretch after another.
struct XetFile {
  XetHash hash;
  std::vector<XetTerm> terms;
};

/// Tells the Hub what new files are made of and what is in new xorbs: once it has taken a shard, the files in it can be
/// given names. A file may refer to xorbs that an earlier shard, or an earlier upload, told of.
class ShardBuilder {
 public:
  bool is_empty() const { return files_.empty() && xorbs_.empty(); }
  /// What take() would return.
  std::size_t size_bytes() const;
  void add(const XetFile& file);
  void add(const Xorb& xorb);

  static std::size_t bytes_of(const XetFile& file);
  static std::size_t bytes_of(const Xorb& xorb);

  /// The form that is uploaded, without a footer; the builder begins a new one.
  std::vector<std::uint8_t> take();

 private:
  std::vector<std::uint8_t> files_;  // written out already: the two sections as they stand in a shard
  std::vector<std::uint8_t> xorbs_;
};

}  // namespace wdelta
