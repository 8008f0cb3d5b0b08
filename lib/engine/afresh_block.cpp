// SPDX-License-Identifier: Apache-2.0
#include "engine/afresh_block.hpp"

#include "base/cursor.hpp"
#include "base/error.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace wdelta {
namespace {

// Words of eight bytes are read and written behind the last element.
constexpr std::size_t k_slack_bytes = 8;
constexpr unsigned k_shift_bits = 3;  // of the byte that says shift and prefix
constexpr unsigned k_most_shift = 5;
// How far the encoder goes: each bit gains less than the one before, and Huffman codes of a byte grow too long.
constexpr unsigned k_encoded_shift = 2;

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", what); }

std::unique_ptr<std::uint8_t[]> room(std::size_t size_bytes) {
  // Left unset: pages that a small element type never reaches are never touched.
  return std::make_unique_for_overwrite<std::uint8_t[]>(size_bytes + k_slack_bytes);
}

std::uint64_t load(const std::uint8_t* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}
void store(std::uint64_t word, std::uint8_t* to) { std::memcpy(to, &word, sizeof(word)); }
constexpr std::uint64_t in_every_byte(std::uint8_t byte) { return std::uint64_t{0x0101010101010101} * byte; }

/// Eight numbers, a byte each, to and from a string of bits: neighbours join to pairs, pairs to fours, fours to eight.
class EightNumbers {
 public:
  explicit EightNumbers(unsigned bits) : bits_(bits), gap_(8 - bits) {}

  std::uint64_t join(std::uint64_t eight) const {
    eight = (eight & 0x00ff00ff00ff00ff) | (eight & 0xff00ff00ff00ff00) >> gap_;
    eight = (eight & 0x0000ffff0000ffff) | (eight & 0xffff0000ffff0000) >> 2 * gap_;
    return (eight & 0x00000000ffffffff) | (eight & 0xffffffff00000000) >> 4 * gap_;
  }
  std::uint64_t part(std::uint64_t string) const {
    string = (string & fours_) | (string & fours_ << 4 * bits_) << 4 * gap_;
    string = (string & pairs_) | (string & pairs_ << 2 * bits_) << 2 * gap_;
    return (string & ones_) | (string & ones_ << bits_) << gap_;
  }

 private:
  unsigned bits_;
  unsigned gap_;
  std::uint64_t fours_ = (std::uint64_t{1} << 4 * bits_) - 1;
  std::uint64_t pairs_ = 0x0000000100000001 * ((std::uint64_t{1} << 2 * bits_) - 1);
  std::uint64_t ones_ = 0x0001000100010001 * ((std::uint64_t{1} << bits_) - 1);
};

/// How many of the highest bits are the same in all bytes.
unsigned agreed_bits(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t differing = 0;
  const std::uint64_t first = in_every_byte(bytes[0]);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) differing |= load(bytes + i) ^ first;
  for (; i < count; ++i) differing |= static_cast<std::uint64_t>(bytes[i] ^ bytes[0]);
  for (unsigned half = 32; half >= 8; half /= 2) differing |= differing >> half;
  return static_cast<unsigned>(std::countl_zero(static_cast<std::uint8_t>(differing)));
}

/// Whether a sample of the numbers looks as if each came equally often: two that are drawn then are equal in one case
/// out of 2^bits. No code makes such ones smaller, and to find that out takes longer.
bool looks_even(std::span<const std::uint8_t> numbers, unsigned bits) {
  constexpr std::size_t k_sample = 2048;
  if (numbers.size() < 4 * k_sample) return false;
  std::array<std::uint32_t, 256> counts{};
  const std::size_t stride = numbers.size() / k_sample;
  for (std::size_t i = 0; i < k_sample; ++i) ++counts[numbers[i * stride]];
  std::uint64_t pairs = 0;
  for (const std::uint32_t count : counts) pairs += std::uint64_t{count} * count;
  // But those of each with itself. Chance alone makes a sixteenth more of them once in millions of samples.
  return (pairs - k_sample) << bits <= k_sample * k_sample / 16 * 17;
}

}  // namespace

void append_packed(std::span<const std::uint8_t> numbers, unsigned bits, std::vector<std::uint8_t>& packed) {
  if (bits == 8) {
    packed.insert(packed.end(), numbers.begin(), numbers.end());
    return;
  }
  const std::size_t begin = packed.size();
  packed.resize(begin + packed_bytes(numbers.size(), bits) + k_slack_bytes);
  std::uint8_t* to = packed.data() + begin;
  const EightNumbers eight(bits);
  std::size_t i = 0;
  for (; i + 8 <= numbers.size(); i += 8, to += bits) store(eight.join(load(numbers.data() + i)), to);
  if (i < numbers.size()) {
    std::array<std::uint8_t, 8> last{};
    std::ranges::copy(numbers.subspan(i), last.begin());
    store(eight.join(load(last.data())), to);
  }
  packed.resize(packed.size() - k_slack_bytes);
}

bool read_packed(std::span<const std::uint8_t> packed, unsigned bits, std::span<std::uint8_t> numbers) {
  if (bits == 8) {
    std::ranges::copy(packed, numbers.begin());
    return true;
  }
  const EightNumbers eight(bits);
  std::size_t i = 0;
  std::size_t at = 0;
  for (; i + 8 <= numbers.size() && at + 8 <= packed.size(); i += 8, at += bits) {
    store(eight.part(load(packed.data() + at)), numbers.data() + i);
  }
  std::uint64_t left = 0;
  for (; i < numbers.size(); i += 8, at += bits) {
    std::array<std::uint8_t, 8> last{};
    std::copy_n(packed.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(bits, packed.size() - at),
                last.begin());
    const std::uint64_t string = load(last.data());
    store(eight.part(string), last.data());
    const std::size_t taken = std::min<std::size_t>(8, numbers.size() - i);
    std::copy_n(last.begin(), taken, numbers.begin() + static_cast<std::ptrdiff_t>(i));
    left = string >> (taken * bits);
  }
  return left == 0;
}

AfreshEncoder::AfreshEncoder()
    : planes_(room(k_block_elements * sizeof(std::uint64_t))),
      symbols_(room(k_block_elements)),
      rests_(room(k_block_elements)),
      frame_(room(k_block_elements)) {}

void AfreshEncoder::append(const BlockKernels& kernels, std::span<const std::uint8_t> next, ElementType type,
                           std::vector<std::uint8_t>& coded) {
  if (zeros_bytes_ < next.size()) {
    zeros_bytes_ = k_block_elements * std::size_t{type.width_bytes};
    zeros_ = std::make_unique<std::uint8_t[]>(zeros_bytes_);
  }
  const std::size_t count = next.size() / type.width_bytes;
  kernels.split_steps(zeros_.get(), next.data(), static_cast<std::uint32_t>(count), planes_.get());
  const std::uint8_t* const top = planes_.get() + (type.width_bytes - 1U) * count;
  if (type.width_bytes == 1) {
    coded.push_back(0);
    return append_plane({top, count}, 8, coded);
  }
  const unsigned shift = std::min(agreed_bits(top, count), k_encoded_shift);
  coded.push_back(static_cast<std::uint8_t>(shift | (top[0] >> (8 - shift)) << k_shift_bits));
  const std::uint8_t* const second = top - count;
  const std::uint64_t rest_mask = in_every_byte(static_cast<std::uint8_t>(0xff >> shift));
  const std::uint64_t moved_mask = in_every_byte(static_cast<std::uint8_t>((1U << shift) - 1));
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t low = load(second + i);
    store((load(top + i) << shift & ~moved_mask) | (low >> (8 - shift) & moved_mask), symbols_.get() + i);
    store(low & rest_mask, rests_.get() + i);
  }
  append_plane({symbols_.get(), count}, 8, coded);
  append_plane({rests_.get(), count}, 8 - shift, coded);
  for (std::size_t plane = type.width_bytes - 2U; plane-- > 0;) {
    append_plane({planes_.get() + plane * count, count}, 8, coded);
  }
}

void AfreshEncoder::append_plane(std::span<const std::uint8_t> numbers, unsigned bits,
                                 std::vector<std::uint8_t>& coded) {
  const std::size_t stored = packed_bytes(numbers.size(), bits);
  std::size_t framed = 0;
  if (stored >= k_least_frame_content && !looks_even(numbers, bits)) {
    const bool has_runs = has_runs_of_zeros(count_zeros(numbers.data(), numbers.size()), numbers.size());
    framed = (has_runs ? run_frames_ : symbol_frames_).write(numbers, {}, {frame_.get(), stored - 1});
  }
  append_varint(coded, framed);
  if (framed != 0) {
    coded.insert(coded.end(), frame_.get(), frame_.get() + framed);
  } else {
    append_packed(numbers, bits, coded);
  }
}

AfreshDecoder::AfreshDecoder()
    : planes_(room(k_block_elements * sizeof(std::uint64_t))),
      symbols_(room(k_block_elements)),
      rests_(room(k_block_elements)) {}

void AfreshDecoder::apply(const BlockKernels& kernels, std::span<const std::uint8_t> coded, ElementType type,
                          std::span<std::uint8_t> elements) {
  const std::size_t count = elements.size() / type.width_bytes;
  Cursor cursor(coded);
  const unsigned head = cursor.u8();
  const unsigned shift = head & ((1U << k_shift_bits) - 1);
  const unsigned prefix = head >> k_shift_bits;
  if (shift > k_most_shift || prefix >> shift != 0 || (type.width_bytes == 1 && shift != 0)) {
    refuse("its first bits are out of range");
  }
  const auto take_plane = [&](unsigned bits, std::uint8_t* to) {
    const std::span<std::uint8_t> numbers(to, count);
    const std::uint64_t framed = cursor.varint();
    if (framed == 0) {
      if (!read_packed(cursor.take(packed_bytes(count, bits)), bits, numbers)) {
        refuse("a plane ends with bits that mean nothing");
      }
      return;
    }
    const auto frame = cursor.take(framed);
    if (FrameReader::content_bytes(frame) != count) refuse("a plane has not a number for each element");
    frames_.read(frame, numbers);
    if (bits == 8) return;
    std::uint8_t any_set = 0;
    for (const std::uint8_t number : numbers) any_set = static_cast<std::uint8_t>(any_set | number);
    if (any_set >> bits != 0) refuse("a plane has numbers that are too large");
  };
  std::uint8_t* const top = planes_.get() + (type.width_bytes - 1U) * count;
  if (type.width_bytes == 1) {
    take_plane(8, top);
  } else {
    take_plane(8, symbols_.get());
    take_plane(8 - shift, rests_.get());
    for (std::size_t plane = type.width_bytes - 2U; plane-- > 0;) take_plane(8, planes_.get() + plane * count);
    // The second plane goes a few bytes too far, into the top one, which is written behind it.
    std::uint8_t* const second = top - count;
    const std::uint64_t rest_mask = in_every_byte(static_cast<std::uint8_t>(0xff >> shift));
    const std::uint64_t prefix_in_place = in_every_byte(static_cast<std::uint8_t>(prefix << (8 - shift)));
    for (std::size_t i = 0; i < count; i += 8) {
      store((load(symbols_.get() + i) << (8 - shift) & ~rest_mask) | load(rests_.get() + i), second + i);
    }
    for (std::size_t i = 0; i < count; i += 8) {
      store((load(symbols_.get() + i) >> shift & rest_mask) | prefix_in_place, top + i);
    }
  }
  if (!cursor.at_end()) refuse("bytes follow its planes");
  std::ranges::fill(elements, std::uint8_t{0});
  kernels.merge_steps(elements.data(), static_cast<std::uint32_t>(count), planes_.get());
}

}  // namespace wdelta
