// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace wdelta {

/// Where the bodies of xorbs are: pieces of memory of one size. One that is free again serves the next xorb, because
/// new pages cost as much time as filling them. Any thread may let go of one.
class XorbMemory {
 public:
  /// Owns a piece until it is destroyed or moved from.
  class Piece {
   public:
    Piece() = default;
    Piece(Piece&&) noexcept = default;
    Piece& operator=(Piece&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Piece() {
      if (pool_ != nullptr) pool_->give_back(std::move(buffer_));
    }

   private:
    friend class XorbMemory;
    struct Pool {
      void give_back(Buffer&& buffer) noexcept {
        const std::lock_guard lock(mutex);
        if (free.size() < free.capacity()) free.push_back(std::move(buffer));
      }

      std::mutex mutex;
      std::vector<Buffer> free;
    };

    Piece(std::shared_ptr<Pool> pool, Buffer&& buffer) : pool_(std::move(pool)), buffer_(std::move(buffer)) {}

    std::shared_ptr<Pool> pool_;
    Buffer buffer_;
  };

  explicit XorbMemory(std::size_t piece_bytes) : piece_bytes_(piece_bytes) { pool_->free.reserve(k_most_free); }

  std::pair<Piece, std::span<std::uint8_t>> take() {
    Buffer buffer;
    {
      const std::lock_guard lock(pool_->mutex);
      if (!pool_->free.empty()) {
        buffer = std::move(pool_->free.back());
        pool_->free.pop_back();
      }
    }
    const std::span<std::uint8_t> bytes = buffer.of_size(piece_bytes_);
    return {Piece(pool_, std::move(buffer)), bytes};
  }

 private:
  static constexpr std::size_t k_most_free = 2;

  std::size_t piece_bytes_;
  std::shared_ptr<Piece::Pool> pool_ = std::make_shared<Piece::Pool>();
};

}  // namespace wdelta
