// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/xet/chunker.hpp"
#include "store/xet/shard.hpp"
#include "store/xet/xorb.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace wdelta {

/// Where what XetUpload makes goes. Called on the thread that calls XetUpload, which waits meanwhile: whoever sends
/// xorbs in the background bounds memory by letting xorb() wait until fewer are on their way.
class XetSink {
 public:
  virtual ~XetSink() = default;
  virtual void xorb(Xorb&& xorb) = 0;
  /// The Hub takes a shard only when it has every xorb that was given to xorb() before, and files of this shard are
  /// named only when it has taken this one and all before it.
  virtual void shard(std::vector<std::uint8_t>&& body) = 0;
};

/// Tests make these small.
struct XetLimits {
  std::size_t xorb_bytes = k_largest_xorb_bytes;
  /// Well below what the Hub takes: one of this size tells of 20 GiB, and it is in memory twice while it is sent.
  std::size_t shard_bytes = std::size_t{16} << 20;
};

/// Turns files into what the Hub's content store takes: xorbs, then shards. Files share xorbs, and a file may reach
/// over several. What comes out depends on nothing but the files and their order, so that an upload that is repeated
/// finds its xorbs there.
///
/// Holds one unfinished xorb, a stretch of a file and one shard, however large the files are.
class XetUpload {
 public:
  /// Both must outlive it.
  XetUpload(XetSink& sink, const Execution& execution, const XetLimits& limits = {});

  /// Returns the file's hash, by which it is given its name once finish() returned and the sink has sent everything.
  XetHash add(const ByteReader& file);
  XetHash add(std::span<const std::uint8_t> bytes);
  /// Gives away what is not full yet.
  void finish();

 private:
  XetHash close_xorb();
  void keep(const XetFile& file);
  void make_shard_room(std::size_t size_bytes);

  XetSink* sink_;
  XetLimits limits_;
  XetChunker chunker_;
  XorbBuilder builder_;
  std::vector<XetFile> waiting_;  // whose last term lies in the xorb that has no hash yet
  ShardBuilder shard_;
  std::set<XetHash> known_;  // files told of: one that comes twice is told of once
};

}  // namespace wdelta
