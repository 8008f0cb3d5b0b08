// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_job.hpp"
#include "base/blake3_kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define WDELTA_INLINE static inline __attribute__((always_inline))

namespace wdelta {

namespace {

constexpr std::size_t k_lanes = 8;

// One word of 8 lanes.
using Words = __m256i;

// How vpshufb rotates words to the right by whole bytes.
alignas(32) constexpr std::uint8_t k_rotate_16[32] = {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,
                                                      2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13};
alignas(32) constexpr std::uint8_t k_rotate_8[32] = {1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12,
                                                     1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12};

// The state takes all 16 registers. These are assembly so that each step works in place and in the order written: with
// intrinsics GCC 12 spills its way down to 2.8 GB/s on Zen 5, against 4.1.
WDELTA_INLINE void add(Words& to, const Words& words) { __asm__ volatile("vpaddd %1, %0, %0" : "+x"(to) : "x"(words)); }

WDELTA_INLINE void add_memory(Words& to, const Words& words) {
  __asm__ volatile("vpaddd %1, %0, %0" : "+x"(to) : "m"(words));
}

WDELTA_INLINE void flip(Words& to, const Words& words) { __asm__ volatile("vpxor %1, %0, %0" : "+x"(to) : "x"(words)); }

template <int Bits>
WDELTA_INLINE void rotate_right(Words& words) {
  if constexpr (Bits == 16) {
    __asm__ volatile("vpshufb %1, %0, %0" : "+x"(words) : "m"(k_rotate_16));
  } else if constexpr (Bits == 8) {
    __asm__ volatile("vpshufb %1, %0, %0" : "+x"(words) : "m"(k_rotate_8));
  } else {
    Words low;
    __asm__ volatile(
        "vpsrld %2, %0, %1\n\t"
        "vpslld %3, %0, %0\n\t"
        "vpor %1, %0, %0"
        : "+x"(words), "=&x"(low)
        : "i"(Bits), "i"(32 - Bits));
  }
}

// Four words of 8 inputs each: the rows of the specification's 4 x 4 state. Between its uses c[3] is parked in memory,
// outside of this: rotations need a register, of which there are 16.
struct State {
  Words a[4], b[4], c[4], d[4];
};

WDELTA_INLINE void add_parked(Words& sum, const Words& parked, const Words& words) {
  __asm__ volatile("vpaddd %2, %1, %0" : "=x"(sum) : "x"(words), "m"(parked));
}

WDELTA_INLINE void park(Words& parked, const Words& words) {
  __asm__ volatile("vmovdqa %1, %0" : "=m"(parked) : "x"(words));
}

// A round is four mixing steps of columns and then four of diagonals, each of two halves, which are counted from the
// first of seven rounds on. A half has seven stages.
constexpr unsigned k_halves = 28;
constexpr unsigned k_stages = 7;
// Stages that two of the four steps are ahead of the others: rotations, for which processors have few ports, then meet
// additions and not each other. What the steps behind read comes before those ahead change it: no lead is longer.
// (bench-blake3 on Zen 3: 3.9 GB/s without, 4.2 so.)
constexpr unsigned k_lead = 5;

template <unsigned Half, unsigned Stage>
WDELTA_INLINE void stage_of(State& s, Words& parked, const Words (&message)[16], unsigned i) {
  constexpr unsigned k_turn = Half % 4 / 2;
  constexpr bool is_second = Half % 2 != 0;
  const unsigned b = (i + k_turn) % 4;
  const unsigned c = (i + 2 * k_turn) % 4;
  const unsigned d = (i + 3 * k_turn) % 4;
  if constexpr (Stage == 0) {
    add_memory(s.a[i], message[k_blake3_schedule[Half / 4][8 * k_turn + 2 * i + (is_second ? 1 : 0)]]);
  } else if constexpr (Stage == 1) {
    add(s.a[i], s.b[b]);
  } else if constexpr (Stage == 2) {
    flip(s.d[d], s.a[i]);
  } else if constexpr (Stage == 3) {
    rotate_right<is_second ? 8 : 16>(s.d[d]);
  } else if constexpr (Stage == 4) {
    if (c == 3) {
      add_parked(s.c[c], parked, s.d[d]);
    } else {
      add(s.c[c], s.d[d]);
    }
  } else if constexpr (Stage == 5) {
    flip(s.b[b], s.c[c]);
    if (c == 3) park(parked, s.c[c]);
  } else {
    rotate_right<is_second ? 7 : 12>(s.b[b]);
  }
}

// What the early ones of the next four steps need first, the early ones of these have made.
template <unsigned Half, unsigned Stage>
WDELTA_INLINE void early(State& s, Words& parked, const Words (&message)[16]) {
  stage_of<Half, Stage>(s, parked, message, 0);
  stage_of<Half, Stage>(s, parked, message, Half % 4 < 2 ? 1 : 3);
}
template <unsigned Half, unsigned Stage>
WDELTA_INLINE void late(State& s, Words& parked, const Words (&message)[16]) {
  stage_of<Half, Stage>(s, parked, message, Half % 4 < 2 ? 2 : 1);
  stage_of<Half, Stage>(s, parked, message, Half % 4 < 2 ? 3 : 2);
}

template <unsigned Half, unsigned Stage>
WDELTA_INLINE void both(State& s, Words& parked, const Words (&message)[16]) {
  late<Half, Stage>(s, parked, message);
  if constexpr (Stage + k_lead < k_stages) {
    early<Half, Stage + k_lead>(s, parked, message);
  } else if constexpr (Half + 1 < k_halves) {
    early<Half + 1, Stage + k_lead - k_stages>(s, parked, message);
  }
}

template <unsigned Half>
WDELTA_INLINE void halves_from(State& s, Words& parked, const Words (&message)[16], const char* ahead) {
  if constexpr (Half < k_halves) {
    both<Half, 0>(s, parked, message);
    both<Half, 1>(s, parked, message);
    both<Half, 2>(s, parked, message);
    both<Half, 3>(s, parked, message);
    both<Half, 4>(s, parked, message);
    both<Half, 5>(s, parked, message);
    both<Half, 6>(s, parked, message);
    if constexpr (Half % 2 == 0 && Half < 16) _mm_prefetch(ahead + k_blake3_block_bytes * (Half / 2), _MM_HINT_T0);
    halves_from<Half + 1>(s, parked, message, ahead);
  }
}

template <unsigned Stages>
WDELTA_INLINE void first_stages(State& s, Words& parked, const Words (&message)[16]) {
  if constexpr (Stages > 0) {
    first_stages<Stages - 1>(s, parked, message);
    early<0, Stages - 1>(s, parked, message);
  }
}

// Prefetches 512 bytes from `ahead` on: 8 streams that are 1 KiB apart are too many for the processor's own prefetcher.
WDELTA_INLINE void seven_rounds(State& s, Words& parked, const Words (&message)[16], const char* ahead) {
  first_stages<k_lead>(s, parked, message);
  halves_from<0>(s, parked, message, ahead);
}

// 8 rows of 8 words to 8 words of 8 lanes. Its own inverse.
WDELTA_INLINE void transpose(Words* rows) {
  Words pairs[2][4];
#pragma GCC unroll 2
  for (unsigned h = 0; h < 2; ++h) {
    const Words ab_low = _mm256_unpacklo_epi32(rows[4 * h + 0], rows[4 * h + 1]);
    const Words ab_high = _mm256_unpackhi_epi32(rows[4 * h + 0], rows[4 * h + 1]);
    const Words cd_low = _mm256_unpacklo_epi32(rows[4 * h + 2], rows[4 * h + 3]);
    const Words cd_high = _mm256_unpackhi_epi32(rows[4 * h + 2], rows[4 * h + 3]);
    pairs[h][0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    pairs[h][1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    pairs[h][2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    pairs[h][3] = _mm256_unpackhi_epi64(ab_high, cd_high);
  }
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    rows[j] = _mm256_permute2x128_si256(pairs[0][j], pairs[1][j], 0x20);
    rows[4 + j] = _mm256_permute2x128_si256(pairs[0][j], pairs[1][j], 0x31);
  }
}

struct Read {
  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

// Read and copied to a place `distance` bytes away.
struct ReadAndCopy {
  std::ptrdiff_t distance;

  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const {
    Words words = Read()(from);
    // What is copied and what is hashed are the same even if another process writes there: the compiler must not read
    // it a second time.
    __asm__("" : "+x"(words));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(const_cast<std::uint8_t*>(from) + distance), words);
    return words;
  }
};

// Shuffles take a few turns of the rounds; words that scalar moves put into lanes while the rounds go on, as for
// AVX-512, are 256 instructions more, and slower wherever somebody else shares the core (bench-blake3 on Zen 3, medians
// of many runs beside others: 2.8 GB/s, and 2.6 with moves).
template <class Take>
WDELTA_INLINE void load_transposed(const std::uint8_t* const* inputs, std::size_t offset, Words (&message)[16],
                                   Take take) {
#pragma GCC unroll 8
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    message[lane] = take(inputs[lane] + offset);
    message[k_lanes + lane] = take(inputs[lane] + offset + sizeof(Words));
  }
  transpose(message);
  transpose(message + k_lanes);
}

WDELTA_INLINE Words broadcast(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }

template <class Take>
__attribute__((noinline)) void hash(const Job& job, Take take, std::uint32_t* values) {
  Words words[16];
  State s;
  Words parked;
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    s.a[i] = broadcast(job.key[i]);
    s.b[i] = broadcast(job.key[4 + i]);
  }
  alignas(32) std::uint32_t counters[2][k_lanes];
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const std::uint64_t counter = job.counter + std::uint64_t{lane} * job.counter_step;
    counters[0][lane] = static_cast<std::uint32_t>(counter);
    counters[1][lane] = static_cast<std::uint32_t>(counter >> 32);
  }
  const char* ahead = reinterpret_cast<const char*>(job.inputs[0]) + job.ahead_bytes;
  std::uint32_t flags = job.flags | job.first_flags;
  for (std::size_t block = 0; block < job.blocks; ++block) {
    if (block + 1 == job.blocks) flags |= job.last_flags;
    // Says that the counters may have changed, so that they are read from memory for each block: GCC otherwise keeps
    // them in registers, of which there are too few.
    __asm__ volatile("" : "+m"(counters));
    load_transposed(job.inputs, block * k_blake3_block_bytes, words, take);
    const Words(*message)[16] = &words;
    __asm__("" : "+r"(message));  // one register, where GCC would compute the address of each word
#pragma GCC unroll 3
    for (unsigned i = 0; i < 3; ++i) s.c[i] = broadcast(k_blake3_iv[i]);
    park(parked, broadcast(k_blake3_iv[3]));
    s.d[0] = _mm256_load_si256(reinterpret_cast<const __m256i*>(counters[0]));
    s.d[1] = _mm256_load_si256(reinterpret_cast<const __m256i*>(counters[1]));
    s.d[2] = broadcast(k_blake3_block_bytes);
    s.d[3] = broadcast(flags);
    seven_rounds(s, parked, *message, ahead);
    ahead += k_lanes * k_blake3_block_bytes;
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; ++i) {
      s.a[i] = _mm256_xor_si256(s.a[i], i == 3 ? parked : s.c[i]);
      s.b[i] = _mm256_xor_si256(s.b[i], s.d[i]);
    }
    flags = job.flags;
  }
  Words v[8] = {s.a[0], s.a[1], s.a[2], s.a[3], s.b[0], s.b[1], s.b[2], s.b[3]};
  transpose(v);
#pragma GCC unroll 8
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + 8 * lane), v[lane]);
  }
}

// Any number of inputs that lie `stride` bytes apart, eight at a time. At the end the idle lanes repeat the last input,
// so that nothing outside the input is ever read.
template <class Take>
void hash_many(Job job, const std::uint8_t* input, std::size_t stride, std::size_t count, Take take,
               std::uint32_t* values) {
  const std::uint8_t* inputs[k_lanes];
  job.inputs = inputs;
  while (count > 0) {
    const std::size_t done = count < k_lanes ? count : k_lanes;
    for (std::size_t lane = 0; lane < k_lanes; ++lane) inputs[lane] = input + stride * (lane < done ? lane : done - 1);
    std::uint32_t spare[8 * k_lanes];
    std::uint32_t* output = done < k_lanes ? spare : values;
    hash(job, take, output);
    if (output == spare) __builtin_memcpy(values, spare, 8 * sizeof(std::uint32_t) * done);
    input += stride * done;
    values += 8 * done;
    job.counter += done * job.counter_step;
    count -= done;
  }
}

void hash_chunks(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                 std::uint32_t flags, std::uint32_t* values) {
  hash_many(job_of_chunks(key, first_chunk, flags, k_lanes), input, k_blake3_chunk_bytes, count, Read(), values);
}

static_assert(k_blake3_copied_chunks % k_lanes == 0);  // no lane repeats another's input

void copy_and_hash_chunks(const std::uint8_t* input, std::size_t count, const std::uint32_t* key,
                          std::uint64_t first_chunk, std::uint32_t flags, std::uint8_t* copy, std::uint32_t* values) {
  const ReadAndCopy take = {copy - input};
  hash_many(job_of_chunks(key, first_chunk, flags, k_lanes), input, k_blake3_chunk_bytes, count, take, values);
}

void hash_parents(const std::uint32_t* children, std::size_t count, const std::uint32_t* key, std::uint32_t flags,
                  std::uint32_t* values) {
  const Job job = job_of_parents(key, flags);
  hash_many(job, reinterpret_cast<const std::uint8_t*>(children), k_blake3_block_bytes, count, Read(), values);
}

}  // namespace

const Blake3Kernel k_blake3_avx2 = {"avx2", hash_chunks, copy_and_hash_chunks, hash_parents};

}  // namespace wdelta
