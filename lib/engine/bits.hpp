// SPDX-License-Identifier: Apache-2.0
// Numbers of so many bits, lowest bit first, into bytes and out again.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace wdelta {

/// Whole numbers from 0 on for such as may be less: 0, -1, 1, -2 are 0, 1, 2, 3.
constexpr std::uint32_t zigzag(std::int32_t value) {
  return static_cast<std::uint32_t>(value) << 1 ^ static_cast<std::uint32_t>(value >> 31);
}
constexpr std::int32_t unzigzag(std::uint32_t value) {
  return static_cast<std::int32_t>(value >> 1) ^ -static_cast<std::int32_t>(value & 1);
}
constexpr std::uint32_t zigzag_difference(std::uint32_t value, std::uint32_t expected) {
  return zigzag(static_cast<std::int32_t>(value) - static_cast<std::int32_t>(expected));
}

/// What BitWriter::write_difference() takes.
constexpr std::uint32_t difference_bits(std::uint32_t value, std::uint32_t expected, std::uint32_t order) {
  const std::uint32_t shifted = zigzag_difference(value, expected) + (1U << order);
  return 2 * static_cast<std::uint32_t>(std::bit_width(shifted)) - order - 1;
}

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::uint8_t>& bytes) : bytes_(&bytes) {}

  /// The `count` (at most 32) low bits of `value`, whose other bits are 0.
  void write(std::uint32_t value, std::uint32_t count) {
    pending_ |= std::uint64_t{value} << pending_bits_;
    pending_bits_ += count;
    for (; pending_bits_ >= 8; pending_bits_ -= 8, pending_ >>= 8)
      bytes_->push_back(static_cast<std::uint8_t>(pending_));
  }
  /// As many numbers of 8 bits.
  void write_bytes(std::span<const std::uint8_t> values) {
    const std::size_t at = bytes_->size();
    bytes_->resize(at + values.size());
    std::uint8_t* const to = bytes_->data() + at;
    for (std::size_t i = 0; i < values.size(); ++i, pending_ >>= 8) {
      pending_ |= std::uint64_t{values[i]} << pending_bits_;
      to[i] = static_cast<std::uint8_t>(pending_);
    }
  }
  /// Exponential Golomb code of order `order`: value + 2^order in binary, behind as many zeros as it has bits more than
  /// order + 1. `value` is less than 2^31 - 2^order.
  void write_exp_golomb(std::uint32_t value, std::uint32_t order) {
    const std::uint32_t shifted = value + (1U << order);
    const auto extra = static_cast<std::uint32_t>(std::bit_width(shifted)) - order - 1;
    write(0, extra);
    write(1, 1);
    write(shifted - (1U << (order + extra)), order + extra);
  }
  /// How far a number is from the one that is expected, in that code.
  void write_difference(std::uint32_t value, std::uint32_t expected, std::uint32_t order) {
    write_exp_golomb(zigzag_difference(value, expected), order);
  }
  /// Fills the last byte up with zeros.
  void finish() {
    if (pending_bits_ > 0) write(0, 8 - pending_bits_);
  }

 private:
  std::vector<std::uint8_t>* bytes_;
  std::uint64_t pending_ = 0;
  std::uint32_t pending_bits_ = 0;
};

/// Strings of bits behind one another.
class BitJoiner {
 public:
  /// Behind whole bytes.
  explicit BitJoiner(std::vector<std::uint8_t>& bytes) : bytes_(&bytes) {}

  /// `count` bits, in as many bytes as these need; zeros fill the last one.
  void append(std::span<const std::uint8_t> bits, std::size_t count) {
    if (used_ == 0) {
      bytes_->insert(bytes_->end(), bits.begin(), bits.end());
    } else if (count > 0) {
      const std::size_t last = bytes_->size() - 1;
      bytes_->resize(last + (used_ + count + 7) / 8);
      std::uint8_t* to = bytes_->data() + last;
      std::uint64_t pending = *to;
      std::uint64_t word = 0;
      for (; bits.size() >= sizeof(word); bits = bits.subspan(sizeof(word)), to += sizeof(word)) {
        std::memcpy(&word, bits.data(), sizeof(word));
        pending |= word << used_;
        std::memcpy(to, &pending, sizeof(pending));
        pending = word >> (64 - used_);
      }
      word = 0;
      std::memcpy(&word, bits.data(), bits.size());
      pending |= word << used_;
      std::memcpy(to, &pending, static_cast<std::size_t>(bytes_->data() + bytes_->size() - to));
    }
    used_ = (used_ + count) % 8;
  }

 private:
  std::vector<std::uint8_t>* bytes_;
  std::size_t used_ = 0;  // bits of the last byte; 0: all
};

/// Never reads outside its bytes: past their end come zeros, and is_overrun() says so.
class BitReader {
 public:
  explicit BitReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// `count` is at most 32.
  std::uint32_t read(std::uint32_t count) {
    if (pending_bits_ < count) fill();
    const auto value = static_cast<std::uint32_t>(pending_ & ((std::uint64_t{1} << count) - 1));
    drop(count);
    return value;
  }
  /// Zeros up to the next bit that is set, which is taken too; no more than `most` (at most 31), which need none.
  std::uint32_t read_zeros(std::uint32_t most) {
    if (pending_bits_ <= most) fill();
    const auto zeros = static_cast<std::uint32_t>(std::countr_zero(pending_ | std::uint64_t{1} << most));
    drop(zeros < most ? zeros + 1 : most);
    return zeros;
  }
  /// At least 2^31 where the bits are no such code.
  std::uint32_t read_exp_golomb(std::uint32_t order) {
    const std::uint32_t extra = read_zeros(31 - order);
    if (extra + order > 30) return ~std::uint32_t{0};
    return read(order + extra) + (1U << (order + extra)) - (1U << order);
  }
  /// At least 2^30 away from `expected` where the bits are no such code.
  std::int64_t read_difference(std::uint32_t expected, std::uint32_t order) {
    return std::int64_t{expected} + unzigzag(read_exp_golomb(order));
  }

  std::size_t size_bytes() const { return bytes_.size(); }
  bool is_overrun() const { return bytes_read() > bytes_.size(); }
  /// Of the bytes that were begun no bit is left but zeros.
  bool is_padded() const { return (pending_ & ((1U << pending_bits_ % 8) - 1)) == 0; }
  /// All bytes are read, and what is left of the last is zero.
  bool is_at_end() const { return bytes_read() == bytes_.size() && is_padded(); }
  /// Those that were begun.
  std::size_t bytes_read() const { return at_ - pending_bits_ / 8; }

 private:
  void drop(std::uint32_t count) {
    pending_ >>= count;
    pending_bits_ -= count;
  }
  // To 57 bits or more.
  void fill() {
    std::uint64_t word = 0;
    if (at_ + sizeof(word) <= bytes_.size()) {
      std::memcpy(&word, bytes_.data() + at_, sizeof(word));
    } else if (at_ < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + at_, bytes_.size() - at_);
    }
    // Bits of a byte that is not counted yet come again with the next word, in the same place.
    pending_ |= word << pending_bits_;
    const std::uint32_t more_bytes = (63 - pending_bits_) / 8;
    at_ += more_bytes;
    pending_bits_ += 8 * more_bytes;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;  // behind the bytes whose bits are counted as pending
  std::uint64_t pending_ = 0;
  std::uint32_t pending_bits_ = 0;
};

}  // namespace wdelta
