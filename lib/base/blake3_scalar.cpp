// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_kernel.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {

namespace {

inline std::uint32_t load_word(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
         std::uint32_t{bytes[3]} << 24;
}

template <unsigned Bits>
inline std::uint32_t rotate_right(std::uint32_t word) {
  return word >> Bits | word << (32 - Bits);
}

inline void mix(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d, std::uint32_t first,
                std::uint32_t second) {
  a += b + first;
  d = rotate_right<16>(d ^ a);
  c += d;
  b = rotate_right<12>(b ^ c);
  a += b + second;
  d = rotate_right<8>(d ^ a);
  c += d;
  b = rotate_right<7>(b ^ c);
}

inline void rounds(const std::uint32_t* chaining_value, const std::uint32_t* m, std::uint64_t counter,
                   std::uint32_t block_bytes, std::uint32_t flags, std::uint32_t (&v)[16]) {
  for (unsigned i = 0; i < 8; ++i) v[i] = chaining_value[i];
  for (unsigned i = 0; i < 4; ++i) v[8 + i] = k_blake3_iv[i];
  v[12] = static_cast<std::uint32_t>(counter);
  v[13] = static_cast<std::uint32_t>(counter >> 32);
  v[14] = block_bytes;
  v[15] = flags;
#pragma GCC unroll 7
  for (const auto& s : k_blake3_schedule) {
    mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
    mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
    mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
    mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
    mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
    mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
    mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
    mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
  }
}

inline void advance(std::uint32_t* chaining_value, const std::uint32_t* block, std::uint64_t counter,
                    std::uint32_t flags) {
  std::uint32_t v[16];
  rounds(chaining_value, block, counter, k_blake3_block_bytes, flags, v);
  for (unsigned i = 0; i < 8; ++i) chaining_value[i] = v[i] ^ v[8 + i];
}

void hash_chunks(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                 std::uint32_t flags, std::uint32_t* values) {
  for (std::size_t chunk = 0; chunk < count; ++chunk) {
    std::uint32_t value[8];
    for (unsigned i = 0; i < 8; ++i) value[i] = key[i];
    for (std::size_t block = 0; block < k_blake3_chunk_blocks; ++block) {
      std::uint32_t words[16];
      for (unsigned i = 0; i < 16; ++i) words[i] = load_word(input + 4 * i);
      input += k_blake3_block_bytes;
      const std::uint32_t start = block == 0 ? k_blake3_chunk_start : 0;
      const std::uint32_t end = block + 1 == k_blake3_chunk_blocks ? k_blake3_chunk_end : 0;
      advance(value, words, first_chunk + chunk, flags | start | end);
    }
    for (unsigned i = 0; i < 8; ++i) values[8 * chunk + i] = value[i];
  }
}

void hash_parents(const std::uint32_t* children, std::size_t count, const std::uint32_t* key, std::uint32_t flags,
                  std::uint32_t* values) {
  for (std::size_t parent = 0; parent < count; ++parent) {
    std::uint32_t value[8];
    for (unsigned i = 0; i < 8; ++i) value[i] = key[i];
    advance(value, children + 16 * parent, 0, flags | k_blake3_parent);
    for (unsigned i = 0; i < 8; ++i) values[8 * parent + i] = value[i];
  }
}

}  // namespace

const Blake3Kernel k_blake3_scalar = {"scalar", hash_chunks, nullptr, hash_parents};

void blake3_compress(const std::uint32_t* chaining_value, const std::uint32_t* block, std::uint64_t counter,
                     std::uint32_t block_bytes, std::uint32_t flags, std::uint32_t* output) {
  std::uint32_t v[16];
  rounds(chaining_value, block, counter, block_bytes, flags, v);
  for (unsigned i = 0; i < 8; ++i) {
    output[i] = v[i] ^ v[8 + i];
    output[8 + i] = v[8 + i] ^ chaining_value[i];
  }
}

}  // namespace wdelta
