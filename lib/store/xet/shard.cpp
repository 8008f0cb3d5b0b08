// SPDX-License-Identifier: Apache-2.0
#include "store/xet/shard.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace wdelta {

namespace {

// Every record has this size; numbers are little-endian.
constexpr std::size_t k_record_bytes = 48;
constexpr std::uint32_t k_has_verification = std::uint32_t{1} << 31;
constexpr std::uint8_t k_tag[32] = {'H',  'F',  'R',  'e',  'p',  'o',  'M',  'e',  't',  'a',  'D',
                                    'a',  't',  'a',  0,    0x55, 0x69, 0x67, 0x45, 0x6a, 0x7b, 0x81,
                                    0x57, 0x83, 0xa5, 0xbd, 0xd9, 0x5c, 0xcd, 0xd1, 0x4a, 0xa9};
constexpr std::uint32_t k_shard_version = 2;

/// 32 bytes and four numbers: what all records are.
void append_record(std::vector<std::uint8_t>& bytes, const std::uint8_t (&start)[32],
                   const std::array<std::uint32_t, 4>& numbers) {
  bytes.insert(bytes.end(), std::begin(start), std::end(start));
  for (const std::uint32_t number : numbers) {
    for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(number >> 8 * i));
  }
}

void append_record(std::vector<std::uint8_t>& bytes, const XetHash& hash, const std::array<std::uint32_t, 4>& numbers) {
  std::uint8_t start[32];
  std::copy(hash.bytes.begin(), hash.bytes.end(), start);
  append_record(bytes, start, numbers);
}

void append_section_end(std::vector<std::uint8_t>& bytes) {
  std::uint8_t start[32];
  std::fill(std::begin(start), std::end(start), std::uint8_t{0xff});
  append_record(bytes, start, {});
}

}  // namespace

// The header and the ends of two sections.
std::size_t ShardBuilder::size_bytes() const { return 3 * k_record_bytes + files_.size() + xorbs_.size(); }

std::size_t ShardBuilder::bytes_of(const XetFile& file) { return (1 + 2 * file.terms.size()) * k_record_bytes; }

std::size_t ShardBuilder::bytes_of(const Xorb& xorb) { return (1 + xorb.chunks.size()) * k_record_bytes; }

void ShardBuilder::add(const XetFile& file) {
  append_record(files_, file.hash, {k_has_verification, static_cast<std::uint32_t>(file.terms.size()), 0, 0});
  for (const XetTerm& term : file.terms) {
    append_record(files_, term.xorb, {0, term.size_bytes, term.first_chunk, term.end_chunk});
  }
  for (const XetTerm& term : file.terms) append_record(files_, term.verification, {});
}

void ShardBuilder::add(const Xorb& xorb) {
  std::uint32_t raw_bytes = 0;
  for (const XorbChunk& chunk : xorb.chunks) raw_bytes += chunk.size_bytes;
  append_record(
      xorbs_, xorb.hash,
      {0, static_cast<std::uint32_t>(xorb.chunks.size()), raw_bytes, static_cast<std::uint32_t>(xorb.body.size())});
  std::uint32_t offset = 0;
  for (const XorbChunk& chunk : xorb.chunks) {
    append_record(xorbs_, chunk.hash, {offset, chunk.size_bytes, 0, 0});
    offset += chunk.size_bytes;
  }
}

std::vector<std::uint8_t> ShardBuilder::take() {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(size_bytes());
  append_record(bytes, k_tag, {k_shard_version, 0, 0, 0});
  bytes.insert(bytes.end(), files_.begin(), files_.end());
  append_section_end(bytes);
  bytes.insert(bytes.end(), xorbs_.begin(), xorbs_.end());
  append_section_end(bytes);
  files_ = {};
  xorbs_ = {};
  return bytes;
}

}  // namespace wdelta
