// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_job.hpp"
#include "base/blake3_kernel.hpp"
#include "base/blake3_lanes_avx512.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace wdelta {

namespace {

// The specification's 4 x 4 state of 16 inputs, row by row.
struct State {
  Words a[4], b[4], c[4], d[4];
};

// These are assembly so that the order of instructions stays as written: both compilers move the two groups apart
// again and spill. Measured on Zen 5, 256 KiB in cache: 8.0 GB/s (GCC 12) and 10.9 (clang 14) with intrinsics, 14.4
// with these.
WDELTA_INLINE void add(Words& to, const Words& words) { __asm__ volatile("vpaddd %1, %0, %0" : "+v"(to) : "v"(words)); }

WDELTA_INLINE void add_memory(Words& to, const Words& words) {
  __asm__ volatile("vpaddd %1, %0, %0" : "+v"(to) : "m"(words));
}

WDELTA_INLINE void flip(Words& to, const Words& words) {
  __asm__ volatile("vpxord %1, %0, %0" : "+v"(to) : "v"(words));
}

template <int Bits>
WDELTA_INLINE void rotate_right(Words& words) {
  __asm__ volatile("vprord %1, %0, %0" : "+v"(words) : "i"(Bits));
}

// A round is four halves of mixing functions: two of the columns, then two of the diagonals. Each is seven steps of
// four instructions that do not depend on each other. One step of one group:
template <unsigned Half, unsigned Step>
WDELTA_INLINE void mix(State& s, const Words (&message)[16], const std::uint8_t* schedule) {
  constexpr unsigned k_turn = Half / 2;
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    Words& a = s.a[i];
    Words& b = s.b[(i + k_turn) % 4];
    Words& c = s.c[(i + 2 * k_turn) % 4];
    Words& d = s.d[(i + 3 * k_turn) % 4];
    if constexpr (Step == 0) add_memory(a, message[schedule[8 * k_turn + 2 * i + Half % 2]]);
    if constexpr (Step == 1) add(a, b);
    if constexpr (Step == 2) flip(d, a);
    if constexpr (Step == 3) rotate_right<Half % 2 == 0 ? 16 : 8>(d);
    if constexpr (Step == 4) add(c, d);
    if constexpr (Step == 5) flip(b, c);
    if constexpr (Step == 6) rotate_right<Half % 2 == 0 ? 12 : 7>(b);
  }
}

// The step of the first group, and that of the second, which is one step behind: fewer ports rotate than add (Zen 5:
// two of four), and so one group rotates while the other adds.
template <unsigned Half, unsigned Step, std::size_t Groups, class Between>
WDELTA_INLINE void mix_all(State (&states)[Groups], const Message<Groups>& message, unsigned round,
                           const Between& between) {
  const std::uint8_t* schedule = k_blake3_schedule[round];
  mix<Half, Step>(states[0], message.words[0], schedule);
  if constexpr (Groups == 2) {
    constexpr unsigned k_half = Step > 0 ? Half : (Half + 3) % 4;
    const bool is_first = round == 0 && Half == 0 && Step == 0;
    if (!is_first) mix<k_half, (Step + 6) % 7>(states[1], message.words[1], schedule);
  }
  between.behind(28 * round + 7 * Half + Step);
  // None of the third row is asked for before the next half's fifth step.
  if constexpr (Step == 5) between.borrow(4 * round + Half, states[0].c[(Half + 1) % 4]);
}

template <unsigned Half, std::size_t Groups, class Between>
WDELTA_INLINE void half_mix(State (&states)[Groups], const Message<Groups>& message, unsigned round,
                            const Between& between) {
  mix_all<Half, 0>(states, message, round, between);
  mix_all<Half, 1>(states, message, round, between);
  mix_all<Half, 2>(states, message, round, between);
  mix_all<Half, 3>(states, message, round, between);
  mix_all<Half, 4>(states, message, round, between);
  mix_all<Half, 5>(states, message, round, between);
  mix_all<Half, 6>(states, message, round, between);
}

enum class Cache { first_level, second_level };

// What else is done between the steps: 1 KiB per group is prefetched from `ahead` on, as 32 streams that are 1 KiB
// apart are too many for the processor's own prefetcher. Line by line, evenly: each waits in one of the few places for
// what comes to the first-level cache, and the rounds wait where these are full (Xeon 6, from the page cache: 4.4 GB/s
// without, 6.0 with eight at a time, 7.3 so). Into which cache, the processor decides (CpuFeatures::near_prefetches).
template <std::size_t Groups, Cache Into, class Aside>
struct Prefetching {
  const char* ahead;
  const Aside& aside;

  __attribute__((always_inline)) void behind(unsigned step) const {
    aside.behind(step);
    constexpr unsigned k_lines = Groups * k_lanes;
    constexpr unsigned k_each = k_blake3_steps / k_lines;
    if (step % k_each == 0 && step / k_each < k_lines) {
      _mm_prefetch(ahead + k_blake3_block_bytes * (step / k_each),
                   Into == Cache::first_level ? _MM_HINT_T0 : _MM_HINT_T1);
    }
  }
  __attribute__((always_inline)) void borrow(unsigned half, Words& words) const { aside.borrow(half, words); }
};

template <std::size_t Groups, class Between>
WDELTA_INLINE void seven_rounds(State (&states)[Groups], const Message<Groups>& message, const Between& between) {
#pragma GCC unroll 7
  for (unsigned round = 0; round < 7; ++round) {
    half_mix<0>(states, message, round, between);
    half_mix<1>(states, message, round, between);
    half_mix<2>(states, message, round, between);
    half_mix<3>(states, message, round, between);
  }
  if constexpr (Groups == 2) mix<3, 6>(states[1], message.words[1], k_blake3_schedule[6]);
}

WDELTA_INLINE Words broadcast(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }

template <std::size_t Groups>
struct Counters {
  Words low[Groups], high[Groups];
};

template <std::size_t Groups, Cache Into = Cache::second_level, class Blocks>
WDELTA_INLINE void hash(const Job& job, Blocks& blocks, std::uint32_t* values) {
  State states[Groups];
  Counters<Groups> counters;
#pragma GCC unroll 2
  for (std::size_t g = 0; g < Groups; ++g) {
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; ++i) {
      states[g].a[i] = broadcast(job.key[i]);
      states[g].b[i] = broadcast(job.key[4 + i]);
    }
    const std::uint64_t counter = job.counter + g * k_lanes * job.counter_step;
    const Words lane = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                          broadcast(job.counter_step));
    counters.low[g] = _mm512_add_epi32(broadcast(static_cast<std::uint32_t>(counter)), lane);
    const Words high = broadcast(static_cast<std::uint32_t>(counter >> 32));
    const __mmask16 carry = _mm512_cmplt_epu32_mask(counters.low[g], lane);
    counters.high[g] = _mm512_mask_add_epi32(high, carry, high, broadcast(1));
  }
  const char* ahead = reinterpret_cast<const char*>(blocks.first_input()) + job.ahead_bytes;
  std::uint32_t flags = job.flags | job.first_flags;
  for (std::size_t block = 0; block < job.blocks; ++block) {
    if (block + 1 == job.blocks) flags |= job.last_flags;
    // Says that what is the same for each block may have changed, so that it is read from memory each time: GCC
    // otherwise keeps it in registers, and spills the state.
    __asm__ volatile("" : "+m"(counters));
    const Message<Groups>* message = &blocks.message(block);
    __asm__("" : "+r"(message));  // one register, where GCC would compute the address of each word
    const auto aside = blocks.aside(block);
#pragma GCC unroll 2
    for (std::size_t g = 0; g < Groups; ++g) {
#pragma GCC unroll 4
      for (unsigned i = 0; i < 4; ++i) states[g].c[i] = broadcast(k_blake3_iv[i]);
      states[g].d[0] = counters.low[g];
      states[g].d[1] = counters.high[g];
      states[g].d[2] = broadcast(k_blake3_block_bytes);
      states[g].d[3] = broadcast(flags);
    }
    seven_rounds(states, *message, Prefetching<Groups, Into, decltype(aside)>{ahead, aside});
    ahead += Groups * k_lanes * k_blake3_block_bytes;
#pragma GCC unroll 2
    for (std::size_t g = 0; g < Groups; ++g) {
#pragma GCC unroll 4
      for (unsigned i = 0; i < 4; ++i) {
        flip(states[g].a[i], states[g].c[i]);
        flip(states[g].b[i], states[g].d[i]);
      }
    }
    flags = job.flags;
  }
#pragma GCC unroll 2
  for (std::size_t g = 0; g < Groups; ++g) {
    store_transposed(states[g].a, states[g].b, values + 8 * k_lanes * g);
  }
}

template <std::size_t Groups>
__attribute__((noinline)) void hash_scattered(const Job& job, std::uint32_t* values) {
  ScatteredBlocks<Groups> blocks(job.inputs);
  hash<Groups>(job, blocks, values);
}

template <Cache Into, bool IsCopied>
__attribute__((noinline)) void hash_row(const Job& job, RowsOfChunks<IsCopied>& rows, std::uint32_t* values) {
  hash<2, Into>(job, rows, values);
}

template <Cache Into, bool IsCopied>
void hash_rows(Job job, const std::uint8_t* first, std::size_t count, std::ptrdiff_t distance, std::uint32_t* values) {
  for (RowsOfChunks<IsCopied> rows(first, count, distance); !rows.is_done(); rows.next()) {
    hash_row<Into>(job, rows, values);
    job.counter += k_chunks_in_row;
    values += 8 * k_chunks_in_row;
  }
}

__attribute__((noinline)) void copy_and_hash_scattered(const Job& job, std::ptrdiff_t distance, std::uint32_t* values) {
  ScatteredBlocks<2, ReadAndCopy> blocks(job.inputs, {distance});
  hash<2>(job, blocks, values);
}

// Any number of inputs that lie `stride` bytes apart: two groups at a time, and last one group or two whose idle lanes
// repeat the last input, so that nothing outside the input is ever read.
void hash_many(Job job, const std::uint8_t* input, std::size_t stride, std::size_t count, std::uint32_t* values) {
  const std::uint8_t* inputs[2 * k_lanes];
  job.inputs = inputs;
  while (count > 0) {
    const std::size_t width = count > k_lanes ? 2 * k_lanes : k_lanes;
    const std::size_t done = count < width ? count : width;
    for (std::size_t lane = 0; lane < width; ++lane) inputs[lane] = input + stride * (lane < done ? lane : done - 1);
    std::uint32_t spare[8 * 2 * k_lanes];
    std::uint32_t* output = done < width ? spare : values;
    if (width == k_lanes) {
      hash_scattered<1>(job, output);
    } else {
      hash_scattered<2>(job, output);
    }
    if (output == spare) __builtin_memcpy(values, spare, 8 * sizeof(std::uint32_t) * done);
    input += stride * done;
    values += 8 * done;
    job.counter += done * job.counter_step;
    count -= done;
  }
}

void hash_shuffled(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                   std::uint32_t flags, std::uint32_t* values) {
  hash_many(job_of_chunks(key, first_chunk, flags, k_lanes), input, k_blake3_chunk_bytes, count, values);
}

template <Cache Into>
void hash_moved(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                std::uint32_t flags, std::uint32_t* values) {
  const std::size_t rows = count / k_chunks_in_row;
  if (rows > 0) hash_rows<Into, false>(job_of_chunks(key, first_chunk, flags, k_lanes), input, rows, 0, values);
  const std::size_t done = rows * k_chunks_in_row;
  hash_shuffled(input + done * k_blake3_chunk_bytes, count - done, key, first_chunk + done, flags, values + 8 * done);
}

static_assert(k_blake3_copied_chunks % k_chunks_in_row == 0);

void copy_and_hash_shuffled(const std::uint8_t* input, std::size_t count, const std::uint32_t* key,
                            std::uint64_t first_chunk, std::uint32_t flags, std::uint8_t* copy, std::uint32_t* values) {
  const std::uint8_t* inputs[k_chunks_in_row];
  Job job = job_of_chunks(key, first_chunk, flags, k_lanes);
  job.inputs = inputs;
  for (std::size_t done = 0; done < count; done += k_chunks_in_row) {
    for (std::size_t lane = 0; lane < k_chunks_in_row; ++lane)
      inputs[lane] = input + k_blake3_chunk_bytes * (done + lane);
    copy_and_hash_scattered(job, copy - input, values + 8 * done);
    job.counter += k_chunks_in_row;
  }
}

template <Cache Into>
void copy_and_hash_moved(const std::uint8_t* input, std::size_t count, const std::uint32_t* key,
                         std::uint64_t first_chunk, std::uint32_t flags, std::uint8_t* copy, std::uint32_t* values) {
  const std::size_t rows = count / k_chunks_in_row;
  if (rows > 0)
    hash_rows<Into, true>(job_of_chunks(key, first_chunk, flags, k_lanes), input, rows, copy - input, values);
}

void hash_parents(const std::uint32_t* children, std::size_t count, const std::uint32_t* key, std::uint32_t flags,
                  std::uint32_t* values) {
  const Job job = job_of_parents(key, flags);
  const auto* input = reinterpret_cast<const std::uint8_t*>(children);
  hash_many(job, input, k_blake3_block_bytes, count, values);
}

}  // namespace

const Blake3Kernel k_blake3_avx512 = {"avx512", hash_shuffled, copy_and_hash_shuffled, hash_parents};
const Blake3Kernel k_blake3_avx512_moved = {"avx512-moved", hash_moved<Cache::second_level>,
                                            copy_and_hash_moved<Cache::second_level>, hash_parents};
const Blake3Kernel k_blake3_avx512_moved_near = {"avx512-moved-near", hash_moved<Cache::first_level>,
                                                 copy_and_hash_moved<Cache::first_level>, hash_parents};

}  // namespace wdelta
