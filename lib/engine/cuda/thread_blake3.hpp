// SPDX-License-Identifier: Apache-2.0
// BLAKE3's compression in registers.
#pragma once

#include "base/blake3_kernel.hpp"
#include "engine/cuda/thread_words.hpp"

namespace wdelta::cuda {

/// A chaining value.
struct ChainValue {
  std::uint32_t word[8];
};

template <int index>
inline constexpr std::uint32_t k_blake3_iv_word = k_blake3_iv[index];
template <int round, int step>
inline constexpr int k_blake3_message_word = k_blake3_schedule[round][step];

WDELTA_DEVICE ChainValue blake3_start() {
  return {{k_blake3_iv_word<0>, k_blake3_iv_word<1>, k_blake3_iv_word<2>, k_blake3_iv_word<3>, k_blake3_iv_word<4>,
           k_blake3_iv_word<5>, k_blake3_iv_word<6>, k_blake3_iv_word<7>}};
}

template <int bits>
WDELTA_DEVICE std::uint32_t rotated(std::uint32_t word) {
  return funnel(word, word, bits);
}

WDELTA_DEVICE void mix(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d, std::uint32_t first,
                       std::uint32_t second) {
  a += b + first;
  d = rotated<16>(d ^ a);
  c += d;
  b = rotated<12>(b ^ c);
  a += b + second;
  d = rotated<8>(d ^ a);
  c += d;
  b = rotated<7>(b ^ c);
}

template <int round>
WDELTA_DEVICE void mix_round(std::uint32_t (&v)[16], const std::uint32_t (&m)[16]) {
  mix(v[0], v[4], v[8], v[12], m[k_blake3_message_word<round, 0>], m[k_blake3_message_word<round, 1>]);
  mix(v[1], v[5], v[9], v[13], m[k_blake3_message_word<round, 2>], m[k_blake3_message_word<round, 3>]);
  mix(v[2], v[6], v[10], v[14], m[k_blake3_message_word<round, 4>], m[k_blake3_message_word<round, 5>]);
  mix(v[3], v[7], v[11], v[15], m[k_blake3_message_word<round, 6>], m[k_blake3_message_word<round, 7>]);
  mix(v[0], v[5], v[10], v[15], m[k_blake3_message_word<round, 8>], m[k_blake3_message_word<round, 9>]);
  mix(v[1], v[6], v[11], v[12], m[k_blake3_message_word<round, 10>], m[k_blake3_message_word<round, 11>]);
  mix(v[2], v[7], v[8], v[13], m[k_blake3_message_word<round, 12>], m[k_blake3_message_word<round, 13>]);
  mix(v[3], v[4], v[9], v[14], m[k_blake3_message_word<round, 14>], m[k_blake3_message_word<round, 15>]);
}

/// One whole block of 64 bytes.
WDELTA_DEVICE ChainValue blake3_advance(const ChainValue& value, const std::uint32_t (&m)[16], std::uint64_t counter,
                                        std::uint32_t flags) {
  std::uint32_t v[16];
  WDELTA_UNROLL
  for (int i = 0; i < 8; ++i) v[i] = value.word[i];
  v[8] = k_blake3_iv_word<0>;
  v[9] = k_blake3_iv_word<1>;
  v[10] = k_blake3_iv_word<2>;
  v[11] = k_blake3_iv_word<3>;
  v[12] = static_cast<std::uint32_t>(counter);
  v[13] = static_cast<std::uint32_t>(counter >> 32);
  v[14] = static_cast<std::uint32_t>(k_blake3_block_bytes);
  v[15] = flags;
  mix_round<0>(v, m);
  mix_round<1>(v, m);
  mix_round<2>(v, m);
  mix_round<3>(v, m);
  mix_round<4>(v, m);
  mix_round<5>(v, m);
  mix_round<6>(v, m);
  ChainValue next;
  WDELTA_UNROLL
  for (int i = 0; i < 8; ++i) next.word[i] = v[i] ^ v[8 + i];
  return next;
}

WDELTA_DEVICE ChainValue blake3_parent(const ChainValue& left, const ChainValue& right) {
  std::uint32_t m[16];
  WDELTA_UNROLL
  for (int i = 0; i < 8; ++i) {
    m[i] = left.word[i];
    m[8 + i] = right.word[i];
  }
  return blake3_advance(blake3_start(), m, 0, k_blake3_parent);
}

/// The chunk at `bytes`, whatever their alignment. Each thread has one of its own: the four loads of a block together
/// take whole sectors, and the next block's are on their way while one is compressed.
WDELTA_DEVICE ChainValue blake3_chunk(const void* bytes, std::uint64_t chunk) {
  constexpr std::uint32_t words_of_block = k_blake3_block_bytes / k_word_bytes;
  constexpr std::uint32_t blocks = k_blake3_chunk_blocks;
  const Words words(bytes, k_blake3_chunk_bytes);
  ChainValue value = blake3_start();
  Word next[words_of_block];
  WDELTA_UNROLL
  for (std::uint32_t i = 0; i < words_of_block; ++i) next[i] = words.begin(i);
  WDELTA_ROLLED
  for (std::uint32_t block = 0; block < blocks; ++block) {
    std::uint32_t m[16];
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < words_of_block; ++i) {
      const Word word = words.finish(block * words_of_block + i, next[i]);
      WDELTA_UNROLL
      for (int j = 0; j < 4; ++j) m[4 * i + j] = word.part[j];
    }
    if (block + 1 < blocks) {
      WDELTA_UNROLL
      for (std::uint32_t i = 0; i < words_of_block; ++i) next[i] = words.begin((block + 1) * words_of_block + i);
    }
    const std::uint32_t start = block == 0 ? k_blake3_chunk_start : 0;
    const std::uint32_t end = block + 1 == blocks ? k_blake3_chunk_end : 0;
    value = blake3_advance(value, m, chunk, start | end);
  }
  return value;
}

}  // namespace wdelta::cuda
