// SPDX-License-Identifier: Apache-2.0
#include "store/xet/xet_upload.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace wdelta {

namespace {

/// Bytes in memory, not owned.
class SpanReader final : public ByteReader {
 public:
  explicit SpanReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), bytes.begin());
  }
  const std::string& name() const override { return name_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::string name_ = "bytes in memory";
};

/// The part of a file that lies in the xorb being filled.
struct OpenTerm {
  XetTerm term;
  XetVerification verification;

  void add(const XetChunk& chunk) {
    verification.add(chunk.hash);
    term.size_bytes += static_cast<std::uint32_t>(chunk.bytes.size());
    ++term.end_chunk;
  }
  XetTerm finish() {
    term.verification = verification.finish();
    return term;
  }
};

}  // namespace

XetUpload::XetUpload(XetSink& sink, const Execution& execution, const XetLimits& limits)
    : sink_(&sink), limits_(limits), chunker_(execution), builder_(limits.xorb_bytes) {}

XetHash XetUpload::add(const ByteReader& file) {
  XetFile made;
  XetTree tree;
  std::optional<OpenTerm> open;
  chunker_.cut(file, [&](const XetChunk& chunk) {
    if (!builder_.has_room(chunk)) {
      const XetHash xorb = close_xorb();
      if (open) {
        made.terms.push_back(open->finish());
        made.terms.back().xorb = xorb;
        open.reset();
      }
    }
    if (!open) {
      const auto next = static_cast<std::uint32_t>(builder_.chunk_count());
      open.emplace();
      open->term.first_chunk = open->term.end_chunk = next;
    }
    open->add(chunk);
    builder_.add(chunk);
    tree.add(chunk.hash, chunk.bytes.size());
  });
  made.hash = tree.file_hash();
  if (open) {
    made.terms.push_back(open->finish());
    waiting_.push_back(made);
  } else {
    keep(made);  // empty: there is nothing to wait for
  }
  return made.hash;
}

XetHash XetUpload::add(std::span<const std::uint8_t> bytes) { return add(SpanReader(bytes)); }

void XetUpload::finish() {
  if (!builder_.is_empty()) close_xorb();
  if (!shard_.is_empty()) sink_->shard(shard_.take());
}

// The sink gets the xorb before any shard that tells of it.
XetHash XetUpload::close_xorb() {
  Xorb xorb = builder_.take();
  const XetHash hash = xorb.hash;
  make_shard_room(ShardBuilder::bytes_of(xorb));
  shard_.add(xorb);
  sink_->xorb(std::move(xorb));
  for (XetFile& file : waiting_) {
    file.terms.back().xorb = hash;
    keep(file);
  }
  waiting_.clear();
  return hash;
}

void XetUpload::keep(const XetFile& file) {
  if (!known_.insert(file.hash).second) return;
  make_shard_room(ShardBuilder::bytes_of(file));
  shard_.add(file);
}

void XetUpload::make_shard_room(std::size_t size_bytes) {
  if (!shard_.is_empty() && shard_.size_bytes() + size_bytes > limits_.shard_bytes) sink_->shard(shard_.take());
}

}  // namespace wdelta
