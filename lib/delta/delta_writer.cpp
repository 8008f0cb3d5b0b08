// SPDX-License-Identifier: Apache-2.0
#include "delta/delta_writer.hpp"

#include "base/cursor.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/reader_digest.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/container.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <zstd.h>

namespace wdelta {

DeltaWriter::DeltaWriter(std::filesystem::path path) : path_(std::move(path)), output_(path_), spool_(path_) {
  output_.take_permissions_of(path_);
}

void DeltaWriter::begin_tensor(std::string name) { entries_.push_back({std::move(name), 0, {}, {}}); }

void DeltaWriter::append_group(const CodedGroup& group) {
  Entry& entry = entries_.back();
  const std::size_t before = entry.lengths.size();
  for (const std::size_t size : group.batch_bytes) append_varint(entry.lengths, size);
  const Strips strips{entry.block_count, group.blocks.size(), group.blocks_in_strip};
  entry.groups.push_back({group.blocks.size(), entry.lengths.size() - before, group.parameters.size(), group.reference,
                          strips, group.strips_in_batch});
  entry.block_count += group.blocks.size();
  entry.size_bytes += group.parameters.size() + group.bytes.size();
  spool_.append(group.parameters);
  spool_.append(group.bytes);
}

void DeltaWriter::append_unchanged_blocks(std::uint64_t count) {
  if (count == 0) return;
  Entry& entry = entries_.back();
  entry.groups.push_back({.block_count = count, .lengths_bytes = static_cast<std::size_t>(count)});
  entry.lengths.insert(entry.lengths.end(), count, 0);
  entry.block_count += count;
}

void DeltaWriter::append_tensor(const Entry& entry, std::vector<std::uint8_t>& index) {
  append_varint(index, entry.block_count);
  auto lengths = entry.lengths.begin();
  for (const Group& group : entry.groups) {
    append_varint(index, group.block_count);
    append_varint(index, group.parameters_bytes);
    if (group.parameters_bytes != 0) {
      const auto strip_bits = static_cast<std::size_t>(std::countr_zero(group.strips.blocks_in_strip));
      append_varint(index, group.reference << k_strip_bits | strip_bits);
      if (group.strips.count() > 1) append_varint(index, group.strips_in_batch);
    }
    const auto end = lengths + static_cast<std::ptrdiff_t>(group.lengths_bytes);
    index.insert(index.end(), lengths, end);
    lengths = end;
  }
}

namespace {

constexpr std::size_t k_header_length_bytes = 8;

std::string unused_key(std::string key, const std::set<std::string>& taken) {
  while (taken.contains(key)) key += "'";
  return key;
}

std::vector<std::uint8_t> compressed(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> frame(ZSTD_compressBound(bytes.size()));
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), 9);
  if (ZSTD_isError(size)) throw Error(Fault::internal, "", fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

void require_readable(const std::filesystem::path& delta, const char* what, std::uint64_t size_bytes,
                      std::size_t frame_bytes) {
  if (size_bytes <= most_framed_bytes(frame_bytes)) return;
  throw Error(
      Fault::unsupported, delta.string(),
      fmt::format("would have {} of {} bytes, which no reader takes of a frame of {}", what, size_bytes, frame_bytes),
      "its tensors' names are too long, or too many");
}

// A delta as it is going to be: its header, then what was spooled.
class WholeDelta final : public ByteReader {
 public:
  WholeDelta(std::vector<std::uint8_t> front, const PayloadSpool& spool) : front_(std::move(front)), spool_(&spool) {}

  std::uint64_t size_bytes() const override { return front_.size() + spool_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (offset < front_.size()) {
      const auto from_front = bytes.first(std::min<std::uint64_t>(bytes.size(), front_.size() - offset));
      std::copy_n(front_.begin() + static_cast<std::ptrdiff_t>(offset), from_front.size(), from_front.begin());
      bytes = bytes.subspan(from_front.size());
      offset = front_.size();
    }
    if (!bytes.empty()) spool_->read_at(offset - front_.size(), bytes);
  }
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  std::vector<std::uint8_t> front_;
  const PayloadSpool* spool_;
  std::string name_ = "delta";
};

}  // namespace

// An entry of its own takes about a hundred bytes of the header, whatever is in it. How many of the next ones share
// one.
std::size_t DeltaWriter::bundle_length(std::span<const Entry> entries) {
  constexpr std::uint64_t k_small_bytes = std::uint64_t{64} << 10;
  const auto large = std::ranges::find_if(entries, [](const Entry& entry) { return entry.size_bytes > k_small_bytes; });
  return std::max<std::size_t>(1, static_cast<std::size_t>(large - entries.begin()));
}

void DeltaWriter::append_bundle(std::span<const Entry> bundle, std::vector<std::uint8_t>& index) {
  index.push_back(k_bundle_encoding);
  append_varint(index, bundle.size());
  std::string_view before;
  for (const Entry& entry : bundle) {
    const auto [differing, more] = std::ranges::mismatch(before, entry.name);
    const auto shared = static_cast<std::size_t>(differing - before.begin());
    append_varint(index, shared);
    append_varint(index, entry.name.size() - shared);
    index.insert(index.end(), more, entry.name.end());
    append_tensor(entry, index);
    before = entry.name;
  }
}

DeltaWriter::Finished DeltaWriter::finish(const DeltaDescription& description, std::span<const std::uint8_t> front,
                                          const Execution& execution) {
  Metadata metadata = {{"format", std::string(k_delta_format)}, {"version", std::string(k_delta_version)}};
  std::ranges::move(to_metadata(description), std::back_inserter(metadata));

  // As text, entry by entry: a Json object would take time in proportion to the square of their number.
  std::string entries;
  std::set<std::string> keys;
  for (const Entry& entry : entries_) keys.insert(entry.name);
  std::uint64_t at = 0;
  const auto add_entry = [&](const std::string& key, std::uint64_t size_bytes) {
    entries += fmt::format(R"(,{}:{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", Json(key).dump(), size_bytes,
                           at, at + size_bytes);
    at += size_bytes;
    keys.insert(key);
  };
  std::vector<std::uint8_t> index;
  std::size_t bundle_count = 0;
  std::uint64_t name_bytes = 0;  // of bundles
  for (std::span<const Entry> left = entries_; !left.empty();) {
    const std::span<const Entry> bundle = left.first(bundle_length(left));
    if (bundle.size() > 1) {
      const std::uint64_t size_bytes =
          std::accumulate(bundle.begin(), bundle.end(), std::uint64_t{0},
                          [](std::uint64_t sum, const Entry& entry) { return sum + entry.size_bytes; });
      add_entry(unused_key(fmt::format("wdelta.bundle.{}", bundle_count++), keys), size_bytes);
      append_bundle(bundle, index);
      for (const Entry& entry : bundle) name_bytes += entry.name.size();
    } else {
      add_entry(bundle.front().name, bundle.front().size_bytes);
      index.push_back(k_tensor_encoding);
      append_tensor(bundle.front(), index);
    }
    left = left.subspan(bundle.size());
  }
  metadata.emplace_back("index", unused_key("wdelta.index", keys));
  const std::vector<std::uint8_t> index_frame = compressed(index);
  require_readable(path_, "a block index", index.size(), index_frame.size());
  require_readable(path_, "names in bundles", name_bytes, index_frame.size());
  add_entry(metadata.back().second, index_frame.size());
  spool_.append(index_frame);
  if (!front.empty()) {
    const std::vector<std::uint8_t> frame = compressed(front);
    require_readable(path_, "a header of the result", front.size() - k_header_length_bytes, frame.size());
    metadata.emplace_back("header", unused_key("wdelta.header", keys));
    add_entry(metadata.back().second, frame.size());
    spool_.append(frame);
  }
  metadata.emplace_back("payload", spool_.digest().hex());
  metadata.emplace_back("digest", std::string(64, '0'));
  Json quoted = Json::object();
  for (const auto& [key, value] : metadata) quoted[key] = value;

  std::string text = "{\"__metadata__\":" + quoted.dump() + entries + "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > SafetensorsHeader::k_longest_header) {
    throw Error(Fault::unsupported, path_.string(),
                fmt::format("would have a header of {} bytes, which no reader takes", text.size()),
                "its tensors' names are too long, or too many");
  }
  std::vector<std::uint8_t> delta_front;
  for (unsigned shift = 0; shift < 64; shift += 8)
    delta_front.push_back(static_cast<std::uint8_t>(text.size() >> shift));
  delta_front.insert(delta_front.end(), text.begin(), text.end());
  const Digest digest = seal_front(delta_front);

  const WholeDelta whole(std::move(delta_front), spool_);
  NoProgress unwatched;  // bytes of a delta are not those that the caller counts
  const Digest file_digest =
      copy_and_digest(whole, output_, {execution.threads, &unwatched, execution.stop, execution.stages});
  return {std::move(output_), whole.size_bytes(), digest, file_digest};
}

}  // namespace wdelta
