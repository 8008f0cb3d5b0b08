// SPDX-License-Identifier: Apache-2.0
#include "store/xet/xorb.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {

// u8 version, u24 stored length, u8 compression scheme, u24 raw length.
constexpr std::size_t k_header_bytes = 8;
constexpr std::uint8_t k_version = 0;
constexpr std::uint8_t k_uncompressed = 0;
// "XETBLOB", in place of a version.
constexpr std::uint8_t k_footer_start = 'X';

void write_u24(std::uint8_t* bytes, std::size_t value) {
  for (unsigned i = 0; i < 3; ++i) bytes[i] = static_cast<std::uint8_t>(value >> 8 * i);
}

std::size_t read_u24(const std::uint8_t* bytes) {
  return bytes[0] | std::size_t{bytes[1]} << 8 | std::size_t{bytes[2]} << 16;
}

}  // namespace

bool XorbBuilder::has_room(const XetChunk& chunk) const {
  return chunk_count() < k_most_xorb_chunks && limit_bytes_ - body_bytes_ >= k_header_bytes + chunk.bytes.size();
}

void XorbBuilder::add(const XetChunk& chunk) {
  // Pages that no chunk reaches are never touched.
  if (room_.empty()) std::tie(xorb_.memory, room_) = memory_.take();
  std::uint8_t* const header = &room_[body_bytes_];
  header[0] = k_version;
  write_u24(header + 1, chunk.bytes.size());
  header[4] = k_uncompressed;
  write_u24(header + 5, chunk.bytes.size());
  std::copy(chunk.bytes.begin(), chunk.bytes.end(), header + k_header_bytes);
  body_bytes_ += k_header_bytes + chunk.bytes.size();
  xorb_.chunks.push_back({chunk.hash, static_cast<std::uint32_t>(chunk.bytes.size())});
  tree_.add(chunk.hash, chunk.bytes.size());
}

Xorb XorbBuilder::take() {
  xorb_.hash = tree_.root();
  xorb_.body = room_.first(body_bytes_);
  tree_ = {};
  room_ = {};
  body_bytes_ = 0;
  return std::exchange(xorb_, {});
}

std::vector<XetChunk> read_xorb(std::span<const std::uint8_t> body, const std::string& name) {
  const auto refuse = [&](Fault fault, std::size_t chunk, const std::string& what) {
    throw Error(fault, name, fmt::format("xorb: chunk {}: {}", chunk, what));
  };
  if (body.size() > k_largest_xorb_bytes) {
    throw Error(Fault::corrupt, name,
                fmt::format("xorb: {} bytes, at most {} allowed", body.size(), k_largest_xorb_bytes));
  }
  std::vector<XetChunk> chunks;
  while (!body.empty() && body[0] != k_footer_start) {
    const std::size_t number = chunks.size();
    if (number == k_most_xorb_chunks) refuse(Fault::corrupt, number, "more than a xorb may have");
    if (body.size() < k_header_bytes) refuse(Fault::corrupt, number, "cut in its header");
    const std::size_t stored_bytes = read_u24(&body[1]);
    const std::size_t raw_bytes = read_u24(&body[5]);
    if (body[0] != k_version) refuse(Fault::unsupported, number, fmt::format("version {}, expected 0", body[0]));
    if (body[4] != k_uncompressed) {
      refuse(Fault::unsupported, number, fmt::format("compression scheme {}, expected 0", body[4]));
    }
    if (raw_bytes == 0 || raw_bytes > k_longest_chunk_bytes) {
      refuse(Fault::corrupt, number, fmt::format("{} bytes, expected 1 to {}", raw_bytes, k_longest_chunk_bytes));
    }
    if (stored_bytes != raw_bytes) {
      refuse(Fault::corrupt, number, fmt::format("stored in {} bytes, expected {}", stored_bytes, raw_bytes));
    }
    body = body.subspan(k_header_bytes);
    if (body.size() < stored_bytes) {
      refuse(Fault::corrupt, number, fmt::format("cut: {} of {} bytes", body.size(), stored_bytes));
    }
    chunks.push_back({xet_chunk_hash(body.first(stored_bytes)), body.first(stored_bytes)});
    body = body.subspan(stored_bytes);
  }
  return chunks;
}

}  // namespace wdelta
