// SPDX-License-Identifier: Apache-2.0
#include "delta/delta_reader.hpp"

#include "base/cursor.hpp"
#include "base/error.hpp"
#include "base/reader_digest.hpp"
#include "delta/container.hpp"
#include "engine/frame.hpp"
#include "engine/group_tables.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace wdelta {

namespace {

std::vector<std::uint8_t> read_tensor(const ByteReader& file, const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.size_bytes());
  file.read_at(tensor.begin, bytes);
  return bytes;
}

/// What a zstd frame holds, of at most `most_bytes`.
std::vector<std::uint8_t> unframed(std::span<const std::uint8_t> frame, std::uint64_t most_bytes,
                                   const std::string& object, const char* what) {
  try {
    return FrameReader::content(frame, most_bytes);
  } catch (const Error& error) {
    throw Error(error.fault(), object, fmt::format("{}: {}", what, error.what()), error.hint());
  }
}

// Of a decimal version. Those before the newest were in no release.
bool is_older(std::string_view version) {
  unsigned number = 0, newest = 0;
  const auto parse = [](std::string_view text, unsigned& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  return parse(version, number) && parse(k_delta_version, newest) && number < newest;
}

Digest required_digest(const Metadata& metadata, const char* key, const std::string& object) {
  const std::string* text = find_metadata(metadata, key);
  const auto digest = text == nullptr ? std::nullopt : Digest::parse(*text);
  if (!digest) throw Error(Fault::corrupt, object, fmt::format("__metadata__ has no digest {:?}", key));
  return *digest;
}

}  // namespace

DeltaReader DeltaReader::open(std::shared_ptr<const ByteReader> file) {
  DeltaReader delta;
  delta.file_ = std::move(file);
  const std::string& name = delta.name();
  const SafetensorsHeader header = SafetensorsHeader::read(*delta.file_);
  const Metadata& metadata = header.metadata();

  const std::string* format = find_metadata(metadata, "format");
  if (format == nullptr || *format != k_delta_format) {
    throw Error(Fault::corrupt, name, "is no delta: __metadata__ \"format\" is not \"wdelta-delta\"");
  }
  const std::string* version = find_metadata(metadata, "version");
  delta.digest_ = required_digest(metadata, "digest", name);
  if (!is_sealed(header.front(), delta.digest_)) {
    throw Error(Fault::corrupt, name, "its header does not have the digest that it says it has");
  }
  if (version == nullptr || *version != k_delta_version) {
    throw Error(
        Fault::unsupported, name,
        fmt::format("is a delta of version {:?}; this wdelta knows {:?}", version ? *version : "", k_delta_version),
        version && is_older(*version) ? "no release made such: use the build that did" : "use a newer wdelta");
  }
  delta.payload_digest_ = required_digest(metadata, "payload", name);
  delta.payload_begin_ = header.front().size();
  delta.description_ = description_from(metadata, name);
  for (const Tensor& tensor : header.tensors()) {
    if (tensor.dtype->name != "U8" || tensor.shape.size() != 1) {
      throw Error(Fault::corrupt, name, fmt::format("entry {:?} is not a string of bytes", tensor.name));
    }
  }
  delta.read_index(header, metadata);
  delta.find_front(header, metadata);
  return delta;
}

void DeltaReader::read_shape(Cursor& cursor, const std::string& tensor, EntryGroup& group) const {
  const std::uint64_t shape = cursor.varint();
  const auto strip_bits = static_cast<unsigned>(shape & ((1U << k_strip_bits) - 1));
  if (!Strips::may_have(1U << strip_bits)) {
    throw Error(Fault::corrupt, name(),
                fmt::format("tensor {:?}: a strip has {} blocks, at most {} expected", tensor, 1U << strip_bits,
                            k_most_blocks_in_strip));
  }
  group.strips.blocks_in_strip = 1U << strip_bits;
  if (const std::uint64_t back = shape >> k_strip_bits; back != 0) {
    if (back > references_.size()) {
      throw Error(
          Fault::corrupt, name(),
          fmt::format("tensor {:?}: a group refers to the one {} before it of those that it may refer to, which "
                      "are {}",
                      tensor, back, references_.size()));
    }
    group.reference = static_cast<std::uint32_t>(references_.size() - back);
  }
  if (group.strips.count() == 1) return;
  const std::uint64_t strips_in_batch = cursor.varint();
  if (strips_in_batch == 0 || strips_in_batch > k_most_strips_in_batch) {
    throw Error(Fault::corrupt, name(),
                fmt::format("tensor {:?}: a batch has {} strips, 1 to {} expected", tensor, strips_in_batch,
                            k_most_strips_in_batch));
  }
  group.strips_in_batch = static_cast<std::uint32_t>(strips_in_batch);
}

// One byte at least for each size and group: no count can make these loops outrun the index.
void DeltaReader::add_tensor(Cursor& cursor, const std::string& tensor, Stretch& left) {
  const std::uint64_t block_count = cursor.varint();
  std::vector<std::uint64_t> batch_ends;
  std::vector<EntryGroup> groups;
  const std::uint64_t first = left.begin;
  const auto take = [&](const char* what) {
    const std::uint64_t size = cursor.varint();
    if (size > left.end - left.begin) {
      throw Error(Fault::corrupt, name(), fmt::format("tensor {:?}: its {} are longer than its entry", tensor, what));
    }
    left.begin += size;
    return size;
  };
  for (std::uint64_t blocks = 0; blocks < block_count;) {
    EntryGroup group;
    group.strips = {blocks, cursor.varint()};
    if (group.block_count() == 0 || group.block_count() > block_count - blocks) {
      throw Error(Fault::corrupt, name(),
                  fmt::format("tensor {:?}: a group has {} blocks, of {} that are left", tensor, group.block_count(),
                              block_count - blocks));
    }
    group.parameters_begin = left.begin;
    group.parameters_bytes = take("parameters");
    group.first_batch = batch_ends.size();
    if (group.parameters_bytes != 0) read_shape(cursor, tensor, group);
    for (std::uint64_t strip = 0; strip < group.strips.count(); strip += group.strips_in_batch) {
      take("blocks");
      batch_ends.push_back(left.begin);
    }
    if (group.parameters_bytes != 0 && group.parameters_begin + group.parameters_bytes == left.begin) {
      throw Error(Fault::corrupt, name(),
                  fmt::format("tensor {:?}: a group has parameters and nothing that needs them", tensor));
    }
    if (group.parameters_bytes != 0 && !group.reference) references_.push_back(group);
    blocks += group.block_count();
    const bool goes_on = group.parameters_bytes == 0 && !groups.empty() && groups.back().parameters_bytes == 0;
    if (goes_on) {
      groups.back().strips.block_count += group.block_count();
    } else {
      groups.push_back(group);
    }
  }
  if (!by_tensor_.emplace(tensor, entries_.size()).second) {
    throw Error(Fault::corrupt, name(), fmt::format("tensor {:?} has two places", tensor));
  }
  entries_.push_back({tensor, left.begin - first, std::move(batch_ends), std::move(groups)});
}

// As with add_tensor(), no count can make the loop outrun the index.
void DeltaReader::add_bundle(Cursor& cursor, Stretch& left) {
  const std::uint64_t tensor_count = cursor.varint();
  if (tensor_count == 0) throw Error(Fault::corrupt, "", "a bundle of no tensors");
  std::string tensor;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    const std::uint64_t shared = cursor.varint();
    if (shared > tensor.size()) {
      throw Error(Fault::corrupt, name(),
                  fmt::format("a name in a bundle begins with {} bytes of the one before it, which has {}", shared,
                              tensor.size()));
    }
    const auto more = cursor.take(cursor.varint());
    tensor.resize(shared);
    tensor.append(more.begin(), more.end());
    if (tensor.size() > most_name_bytes_)
      throw Error(Fault::corrupt, name(), "the names in its bundles have more bytes than its block index may tell");
    most_name_bytes_ -= tensor.size();
    add_tensor(cursor, tensor, left);
  }
}

std::uint8_t DeltaReader::read_encoding(Cursor& cursor, const std::string& entry) const {
  const std::uint8_t encoding = cursor.u8();
  if (encoding == k_tensor_encoding || encoding == k_bundle_encoding) return encoding;
  // Newer than this program, or damaged: only the payload's digest can tell.
  NoProgress unwatched;
  check_payload({1, &unwatched, {}});
  throw Error(Fault::unsupported, name(),
              fmt::format("entry {:?}: encoding {} is not known to this wdelta", entry, encoding),
              "use a newer wdelta");
}

void DeltaReader::read_index(const SafetensorsHeader& header, const Metadata& metadata) {
  const std::string* index_key = find_metadata(metadata, "index");
  const std::string* front_key = find_metadata(metadata, "header");
  const Tensor* index = index_key == nullptr ? nullptr : header.find(*index_key);
  if (index == nullptr) throw Error(Fault::corrupt, name(), "has no block index");
  const std::vector<std::uint8_t> frame = read_tensor(*file_, *index);
  most_name_bytes_ = most_framed_bytes(frame.size());
  const std::vector<std::uint8_t> bytes = unframed(frame, most_name_bytes_, name(), "block index");
  try {
    Cursor cursor(bytes);
    for (const Tensor& tensor : header.tensors()) {
      if (&tensor == index || (front_key != nullptr && tensor.name == *front_key)) continue;
      Stretch left{tensor.begin, tensor.end};
      const std::uint8_t encoding = read_encoding(cursor, tensor.name);
      if (encoding == k_bundle_encoding) {
        add_bundle(cursor, left);
      } else {
        add_tensor(cursor, tensor.name, left);
      }
      if (left.begin != left.end) {
        throw Error(Fault::corrupt, name(),
                    fmt::format("tensor {:?}: its blocks are shorter than its entry", tensor.name));
      }
    }
    if (!cursor.at_end()) throw Error(Fault::corrupt, "", "bytes left over");
  } catch (const Error& error) {
    if (!error.object().empty()) throw;
    throw Error(Fault::corrupt, name(), fmt::format("block index: {}", error.what()));
  }
}

void DeltaReader::find_front(const SafetensorsHeader& header, const Metadata& metadata) {
  const std::string* key = find_metadata(metadata, "header");
  if (description_.opaque != nullptr) {
    if (key != nullptr) throw Error(Fault::corrupt, name(), "is of an opaque file, which has no header");
    return;
  }
  if (key == nullptr) {
    if (description_.base.empty())
      throw Error(Fault::corrupt, name(), "has neither a header nor a base to take it from");
    return;
  }
  const Tensor* entry = header.find(*key);
  if (entry == nullptr) throw Error(Fault::corrupt, name(), "its header entry is missing");
  front_ = Stretch{entry->begin, entry->end};
  stored_front();  // for what it throws
}

std::optional<std::vector<std::uint8_t>> DeltaReader::stored_front() const {
  if (!front_) return std::nullopt;
  std::vector<std::uint8_t> frame(front_->end - front_->begin);
  file_->read_at(front_->begin, frame);
  constexpr std::uint64_t k_length_bytes = 8;
  const std::uint64_t limit =
      std::min(description_.result.size_bytes, k_length_bytes + most_framed_bytes(frame.size()));
  return unframed(frame, limit, name(), "header entry");
}

std::size_t DeltaEntry::group_of(std::uint64_t block) const {
  const auto behind = std::ranges::upper_bound(groups_, block, {}, &EntryGroup::first_block);
  return static_cast<std::size_t>(behind - groups_.begin()) - 1;
}

IndexRange DeltaEntry::strip_of(std::uint64_t block) const {
  const EntryGroup& group = groups_[group_of(block)];
  const IndexRange strip = group.strips.blocks_of(group.strips.of(block - group.first_block()));
  return {group.first_block() + strip.first, group.first_block() + strip.end};
}

const DeltaEntry* DeltaReader::find(const std::string& tensor) const {
  const auto found = by_tensor_.find(tensor);
  return found == by_tensor_.end() ? nullptr : &entries_[found->second];
}

void DeltaReader::check_payload(const Execution& execution) const {
  const SliceReader payload(file_, payload_begin_, file_->size_bytes() - payload_begin_);
  if (digest_of(payload, execution) == payload_digest_) return;
  throw Error(Fault::corrupt, name(), "its payload does not have the digest that its header says: bytes were changed");
}

}  // namespace wdelta
