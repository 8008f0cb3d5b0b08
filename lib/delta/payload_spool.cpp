// SPDX-License-Identifier: Apache-2.0
#include "delta/payload_spool.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

PayloadSpool::PayloadSpool(std::filesystem::path path) : path_(std::move(path)) { held_.reserve(k_most_held_bytes); }

void PayloadSpool::append(std::span<const std::uint8_t> bytes) {
  const std::size_t most = file_ ? k_piece_bytes : k_most_held_bytes;
  if (held_.size() + bytes.size() > most) {
    if (!file_) {
      file_.emplace(path_);
      file_->take_permissions_of(path_);
    }
    hash_.update(not_hashed());
    file_->append(held_);
    held_.clear();
    hashed_ = 0;
  }
  held_.insert(held_.end(), bytes.begin(), bytes.end());
  if (not_hashed().size() < k_piece_bytes) return;
  hash_.update(not_hashed());
  hashed_ = held_.size();
}

Digest PayloadSpool::digest() const {
  Blake3 all = hash_;
  all.update(not_hashed());
  return all.finish();
}

void PayloadSpool::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (offset < filed_bytes()) {
    const auto filed = bytes.first(std::min<std::uint64_t>(bytes.size(), filed_bytes() - offset));
    file_->read_at(offset, filed);
    bytes = bytes.subspan(filed.size());
    offset += filed.size();
  }
  std::copy_n(held_.begin() + static_cast<std::ptrdiff_t>(offset - filed_bytes()), bytes.size(), bytes.begin());
}

}  // namespace wdelta
