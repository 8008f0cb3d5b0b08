// SPDX-License-Identifier: Apache-2.0
#include "base/cached_reader.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <vector>

namespace wdelta {

namespace {

constexpr std::uint64_t k_piece_bytes = std::uint64_t{256} << 10;
constexpr std::size_t k_most_pieces = 512;

// One for all readers, so that it is bounded however many files are open.
class PieceCache {
 public:
  using Piece = std::shared_ptr<const std::vector<std::uint8_t>>;

  /// Null when it is not kept.
  Piece find(const CachedReader* reader, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find({reader, number});
    if (found == by_key_.end()) return nullptr;
    in_order_.splice(in_order_.begin(), in_order_, found->second);
    return found->second->piece;
  }
  void keep(const CachedReader* reader, std::uint64_t number, Piece piece) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = by_key_.try_emplace({reader, number});
    if (!is_new) return;  // another thread has made it as well
    in_order_.push_front({{reader, number}, std::move(piece)});
    place->second = in_order_.begin();
    if (in_order_.size() <= k_most_pieces) return;
    by_key_.erase(in_order_.back().key);
    in_order_.pop_back();
  }
  void forget(const CachedReader* reader) {
    const std::lock_guard lock(mutex_);
    const auto begin = by_key_.lower_bound({reader, 0});
    const auto end = by_key_.upper_bound({reader, UINT64_MAX});
    for (auto place = begin; place != end; ++place) in_order_.erase(place->second);
    by_key_.erase(begin, end);
  }

 private:
  using Key = std::pair<const CachedReader*, std::uint64_t>;
  struct Kept {
    Key key;
    Piece piece;
  };
  std::mutex mutex_;
  std::list<Kept> in_order_;  // the one that was asked for last in front
  std::map<Key, std::list<Kept>::iterator> by_key_;
};

PieceCache& cache() {
  static PieceCache all;
  return all;
}

}  // namespace

CachedReader::~CachedReader() { cache().forget(this); }

void CachedReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const std::uint64_t number = offset / k_piece_bytes;
    PieceCache::Piece piece = cache().find(this, number);
    if (!piece) {
      const std::uint64_t begin = number * k_piece_bytes;
      std::vector<std::uint8_t> made(std::min(k_piece_bytes, size_bytes() - begin));
      whole_->read_at(begin, made);
      piece = std::make_shared<const std::vector<std::uint8_t>>(std::move(made));
      cache().keep(this, number, piece);
    }
    const std::uint64_t from = offset % k_piece_bytes;
    const std::size_t count = std::min<std::size_t>(bytes.size(), piece->size() - from);
    std::copy_n(piece->begin() + static_cast<std::ptrdiff_t>(from), count, bytes.begin());
    bytes = bytes.subspan(count);
    offset += count;
  }
}

}  // namespace wdelta
