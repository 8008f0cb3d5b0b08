// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// A file that is read at least twice, first to learn its digest and then to be sent under it, by others who may write
/// to it in between. Gives no byte that is not the one that was hashed.
class SteadyReader final : public ByteReader {
 public:
  /// Reads and hashes all of `file` on all threads; reports nothing.
  SteadyReader(std::shared_ptr<const ByteReader> file, const Execution& execution);

  const Digest& digest() const { return digest_; }
  std::uint64_t size_bytes() const override { return file_->size_bytes(); }
  /// Throws local when a stretch that has these bytes is not what it was.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return file_->name(); }
  void check_unchanged() const override { file_->check_unchanged(); }

 private:
  // Those who send read whole ones, and need no copy.
  static constexpr std::size_t k_stretch_bytes = std::size_t{256} << 10;
  static constexpr std::size_t k_most_kept = 32;
  struct Stretch {
    std::size_t index = 0;
    std::vector<std::uint8_t> bytes;
  };
  std::size_t stretch_bytes(std::size_t index) const;
  void read_stretch(std::size_t index, std::span<std::uint8_t> bytes) const;
  std::shared_ptr<const Stretch> stretch(std::size_t index) const;

  std::shared_ptr<const ByteReader> file_;
  Blake3Tree tree_;
  Digest digest_;
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<const Stretch>> kept_;  // for readers of small pieces, the newest last
};

}  // namespace wdelta
