// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_kernel.hpp"
#include "base/blake3_moves.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

// GCC 12 takes the undefined operand inside its own intrinsics for one of ours (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define WDELTA_INLINE static inline __attribute__((always_inline))

namespace wdelta {

namespace {

constexpr std::size_t k_lanes = 16;

// One word of 16 lanes.
using Words = __m512i;

// The specification's 4 x 4 state of 16 inputs, row by row.
struct State {
  Words a[4], b[4], c[4], d[4];
};

// Blocks of one group of 16 inputs, or of two. One group alone would wait for its own results: a half round is a chain
// of 12 dependent instructions, and there are only four such chains. Two groups fill the gaps; their states take all 32
// registers, and the message words come from memory.
template <std::size_t Groups>
struct Message {
  Words words[Groups][16];
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

// What else is done between the steps: 1 KiB per group is prefetched from `ahead` on, as 32 streams that are 1 KiB
// apart are too many for the processor's own prefetcher. Line by line, evenly: each waits in one of the few places for
// what comes to the first-level cache, and the rounds wait where these are full (Xeon 6, from the page cache: 4.4 GB/s
// without, 6.0 with eight at a time, 7.3 so). Into the second-level cache: what it holds already would push out of the
// first what is hashed next (make bench, 4 MiB, Zen 4: 6.8 GB/s into the first, 7.0 so).
template <std::size_t Groups, class Aside>
struct Prefetching {
  const char* ahead;
  const Aside& aside;

  __attribute__((always_inline)) void behind(unsigned step) const {
    aside.behind(step);
    constexpr unsigned k_lines = Groups * k_lanes;
    constexpr unsigned k_each = k_blake3_steps / k_lines;
    if (step % k_each == 0 && step / k_each < k_lines) {
      _mm_prefetch(ahead + k_blake3_block_bytes * (step / k_each), _MM_HINT_T1);
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

// Four words of 16 lanes, so that the 128-bit quarters of output j hold word j, 4 + j, ... of the four inputs.
WDELTA_INLINE void transpose_quarters(Words a, Words b, Words c, Words d, Words (&rows)[4]) {
  const Words ab_low = _mm512_unpacklo_epi32(a, b);
  const Words ab_high = _mm512_unpackhi_epi32(a, b);
  const Words cd_low = _mm512_unpacklo_epi32(c, d);
  const Words cd_high = _mm512_unpackhi_epi32(c, d);
  rows[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  rows[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  rows[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  rows[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// How a block comes out of memory: read, and no more.
struct Read {
  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const { return _mm512_loadu_si512(from); }
};

// Read and copied to a place `distance` bytes away.
struct ReadAndCopy {
  std::ptrdiff_t distance;

  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const {
    Words words = _mm512_loadu_si512(from);
    // What is copied and what is hashed are the same even if another process writes there: the compiler must not read
    // it a second time.
    __asm__("" : "+v"(words));
    _mm512_storeu_si512(const_cast<std::uint8_t*>(from) + distance, words);
    return words;
  }
};

// 16 blocks of 16 words, one per lane, to 16 words of 16 lanes.
template <class Take = Read>
WDELTA_INLINE void load_transposed(const std::uint8_t* const* inputs, std::size_t offset, Words (&words)[16],
                                   Take take = {}) {
  Words rows[4][4];
#pragma GCC unroll 4
  for (unsigned q = 0; q < 4; ++q) {
    transpose_quarters(take(inputs[4 * q + 0] + offset), take(inputs[4 * q + 1] + offset),
                       take(inputs[4 * q + 2] + offset), take(inputs[4 * q + 3] + offset), rows[q]);
  }
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const Words even_low = _mm512_shuffle_i32x4(rows[0][j], rows[1][j], 0x88);
    const Words even_high = _mm512_shuffle_i32x4(rows[2][j], rows[3][j], 0x88);
    const Words odd_low = _mm512_shuffle_i32x4(rows[0][j], rows[1][j], 0xdd);
    const Words odd_high = _mm512_shuffle_i32x4(rows[2][j], rows[3][j], 0xdd);
    words[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    words[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    words[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    words[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

// The way back for chaining values: 8 words of 16 lanes to 16 times 8 words.
WDELTA_INLINE void store_transposed(const Words (&first)[4], const Words (&second)[4], std::uint32_t* values) {
  const Words quarters_01 = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const Words quarters_23 = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  Words rows[2][4];
  transpose_quarters(first[0], first[1], first[2], first[3], rows[0]);
  transpose_quarters(second[0], second[1], second[2], second[3], rows[1]);
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const Words low = _mm512_permutex2var_epi64(rows[0][j], quarters_01, rows[1][j]);
    const Words high = _mm512_permutex2var_epi64(rows[0][j], quarters_23, rows[1][j]);
    __m256i* lane = reinterpret_cast<__m256i*>(values + 8 * j);
    _mm256_storeu_si256(lane, _mm512_castsi512_si256(low));
    _mm256_storeu_si256(lane + 4, _mm512_extracti64x4_epi64(low, 1));
    _mm256_storeu_si256(lane + 8, _mm512_castsi512_si256(high));
    _mm256_storeu_si256(lane + 12, _mm512_extracti64x4_epi64(high, 1));
  }
}

// Where the blocks of inputs come from, wherever these lie: each is put into lanes when its turn has come.
template <std::size_t Groups, class Take = Read>
class ScatteredBlocks {
 public:
  explicit ScatteredBlocks(const std::uint8_t* const* inputs, Take take = {}) : inputs_(inputs), take_(take) {}

  __attribute__((always_inline)) const std::uint8_t* first_input() const { return inputs_[0]; }
  __attribute__((always_inline)) const Message<Groups>& message(std::size_t block) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < Groups; ++g)
      load_transposed(inputs_ + g * k_lanes, block * k_blake3_block_bytes, message_.words[g], take_);
    return message_;
  }
  __attribute__((always_inline)) Idle aside(std::size_t) const { return {}; }

 private:
  const std::uint8_t* const* inputs_;
  [[no_unique_address]] Take take_;
  Message<Groups> message_;
};

constexpr std::size_t k_chunks_in_row = 2 * k_lanes;

// The same of rows of 32 chunks that lie one behind the other, for processors whose rounds leave no port to shuffles. A
// block's words are moved in pairs while the rounds are at the block before, and only two shuffles are left for each
// pair. Where chunks are copied, that is done two blocks ahead of the rounds, and words are moved out of the copy (make
// bench, "copy", Xeon 6: 5.9 GB/s, and 5.4 where all is shuffled).
template <bool IsCopied>
class RowsOfChunks {
  using Pairs = Moves<std::uint64_t, k_chunks_in_row, k_lanes>;

 public:
  static constexpr std::size_t k_groups = 2;

  /// `count` rows from `first` on, which are copied to `distance` bytes away.
  RowsOfChunks(const std::uint8_t* first, std::size_t count, std::ptrdiff_t distance)
      : row_(first), last_row_(first + (count - 1) * k_row_bytes), distance_(distance) {
    const Pairs pairs(first + distance, pairs_);
    for (unsigned lane = 0; lane < k_chunks_in_row; ++lane) {
      if constexpr (IsCopied) {
        const std::uint8_t* const chunk = first + lane * k_blake3_chunk_bytes;
        ReadAndCopy{distance}(chunk);
        ReadAndCopy{distance}(chunk + k_blake3_block_bytes);
      }
#pragma GCC unroll 8
      for (unsigned pair = 0; pair < Pairs::k_words; ++pair) pairs.move(lane, pair);
    }
  }

  __attribute__((always_inline)) bool is_done() const { return row_ > last_row_; }
  __attribute__((always_inline)) void next() { row_ += k_row_bytes; }

  __attribute__((always_inline)) const std::uint8_t* first_input() const { return row_; }

  // The next block's.
  __attribute__((always_inline)) const Message<k_groups>& message(std::size_t) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < k_groups; ++g) {
#pragma GCC unroll 8
      for (std::size_t pair = 0; pair < Pairs::k_words; ++pair) {
        const std::uint64_t* const from = pairs_ + (g * Pairs::k_words + pair) * k_lanes;
        const __m512 some = _mm512_load_ps(from);
        const __m512 others = _mm512_load_ps(from + k_lanes / 2);
        message_.words[g][2 * pair] = _mm512_castps_si512(_mm512_shuffle_ps(some, others, 0x88));
        message_.words[g][2 * pair + 1] = _mm512_castps_si512(_mm512_shuffle_ps(some, others, 0xdd));
      }
    }
    return message_;
  }

  class Aside {
   public:
    Aside(RowsOfChunks& rows, std::size_t block)
        : pairs_(rows.block(block + 1) + rows.distance_, rows.pairs_),
          from_(rows.block(block + 2)),
          to_(const_cast<std::uint8_t*>(from_) + rows.distance_),
          parked_(&rows.parked_) {
      // What is hashed already must not be read again: somebody may have written to it.
      if (rows.is_behind_last(block + 2)) from_ = to_;
    }

    __attribute__((always_inline)) void behind(unsigned step) const { pairs_.behind(step); }

    // Copies a line or two, evenly: many at a time would wait for their place in the first-level cache, and the moves
    // for them.
    __attribute__((always_inline)) void borrow(unsigned half, Words& words) const {
      constexpr unsigned k_halves = 28;
      if constexpr (IsCopied) {
        copy(half, words);
        if (k_halves + half < k_chunks_in_row) copy(k_halves + half, words);
      }
    }

   private:
    using Line = __m512i_u;

    // The states take all registers, so that it needs one of theirs.
    __attribute__((always_inline)) void copy(unsigned lane, Words& words) const {
      const auto* const from = reinterpret_cast<const Line*>(from_ + lane * k_blake3_chunk_bytes);
      auto* const to = reinterpret_cast<Line*>(to_ + lane * k_blake3_chunk_bytes);
      __asm__ volatile(
          "vmovdqa64 %0, %1\n\t"
          "vmovdqu64 %3, %0\n\t"
          "vmovdqu64 %0, %2\n\t"
          "vmovdqa64 %1, %0"
          : "+v"(words), "=m"(*parked_), "=m"(*to)
          : "m"(*from));
    }

    Pairs pairs_;
    const std::uint8_t* from_;
    std::uint8_t* to_;
    Words* parked_;
  };
  __attribute__((always_inline)) Aside aside(std::size_t block) { return {*this, block}; }

 private:
  static constexpr std::size_t k_row_bytes = k_chunks_in_row * k_blake3_chunk_bytes;

  // Of the first lane, counted from this row's first on. Behind the last there is none: it is taken again, to where
  // nobody looks.
  __attribute__((always_inline)) const std::uint8_t* block(std::size_t index) const {
    if (is_behind_last(index)) index = k_blake3_chunk_blocks - 1;
    return row_ + index / k_blake3_chunk_blocks * k_row_bytes + index % k_blake3_chunk_blocks * k_blake3_block_bytes;
  }
  __attribute__((always_inline)) bool is_behind_last(std::size_t block) const {
    return row_ == last_row_ && block >= k_blake3_chunk_blocks;
  }

  const std::uint8_t* row_;
  const std::uint8_t* last_row_;
  std::ptrdiff_t distance_;
  Words parked_;
  // With the message behind it in one page: across two, Zen 4 is 2 % slower where chunks come from memory.
  alignas(4096) std::uint64_t pairs_[k_chunks_in_row * Pairs::k_words];
  Message<k_groups> message_;
};

WDELTA_INLINE Words broadcast(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }

struct Job {
  const std::uint8_t* const* inputs;  // one per lane
  std::size_t blocks;
  const std::uint32_t* key;
  std::uint64_t counter;       // of the first lane
  std::uint32_t counter_step;  // from lane to lane: 1 for chunks, 0 for parents
  std::uint32_t flags, first_flags, last_flags;
  std::size_t ahead_bytes;  // how far ahead of the first lane to prefetch
};

template <std::size_t Groups>
struct Counters {
  Words low[Groups], high[Groups];
};

template <std::size_t Groups, class Blocks>
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
    seven_rounds(states, *message, Prefetching<Groups, decltype(aside)>{ahead, aside});
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

template <bool IsCopied>
__attribute__((noinline)) void hash_row(const Job& job, RowsOfChunks<IsCopied>& rows, std::uint32_t* values) {
  hash<2>(job, rows, values);
}

template <bool IsCopied>
void hash_rows(Job job, const std::uint8_t* first, std::size_t count, std::ptrdiff_t distance, std::uint32_t* values) {
  for (RowsOfChunks<IsCopied> rows(first, count, distance); !rows.is_done(); rows.next()) {
    hash_row(job, rows, values);
    job.counter += k_chunks_in_row;
    values += 8 * k_chunks_in_row;
  }
}

__attribute__((noinline)) void copy_and_hash_scattered(const Job& job, std::ptrdiff_t distance, std::uint32_t* values) {
  ScatteredBlocks<2, ReadAndCopy> blocks(job.inputs, {distance});
  hash<2>(job, blocks, values);
}

// How blocks of chunks that lie one behind the other come into lanes.
enum class IntoLanes { moved, shuffled };

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

Job job_of_chunks(const std::uint32_t* key, std::uint64_t first_chunk, std::uint32_t flags) {
  return {nullptr,
          k_blake3_chunk_blocks,
          key,
          first_chunk,
          1,
          flags,
          k_blake3_chunk_start,
          k_blake3_chunk_end,
          2 * k_lanes * k_blake3_chunk_bytes};
}

template <IntoLanes Way>
void hash_chunks(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                 std::uint32_t flags, std::uint32_t* values) {
  std::size_t done = 0;
  if constexpr (Way == IntoLanes::moved) {
    const std::size_t rows = count / k_chunks_in_row;
    done = rows * k_chunks_in_row;
    if (rows > 0) hash_rows<false>(job_of_chunks(key, first_chunk, flags), input, rows, 0, values);
  }
  hash_many(job_of_chunks(key, first_chunk + done, flags), input + done * k_blake3_chunk_bytes, k_blake3_chunk_bytes,
            count - done, values + 8 * done);
}

template <IntoLanes Way>
void copy_and_hash_chunks(const std::uint8_t* input, std::size_t count, const std::uint32_t* key,
                          std::uint64_t first_chunk, std::uint32_t flags, std::uint8_t* copy, std::uint32_t* values) {
  static_assert(k_blake3_copied_chunks % k_chunks_in_row == 0);
  if (count == 0) return;
  Job job = job_of_chunks(key, first_chunk, flags);
  if constexpr (Way == IntoLanes::moved) {
    hash_rows<true>(job, input, count / k_chunks_in_row, copy - input, values);
    return;
  }
  const std::uint8_t* inputs[k_chunks_in_row];
  job.inputs = inputs;
  for (std::size_t done = 0; done < count; done += k_chunks_in_row) {
    for (std::size_t lane = 0; lane < k_chunks_in_row; ++lane)
      inputs[lane] = input + k_blake3_chunk_bytes * (done + lane);
    copy_and_hash_scattered(job, copy - input, values + 8 * done);
    job.counter += k_chunks_in_row;
  }
}

void hash_parents(const std::uint32_t* children, std::size_t count, const std::uint32_t* key, std::uint32_t flags,
                  std::uint32_t* values) {
  const Job job = {nullptr, 1, key, 0, 0, flags | k_blake3_parent, 0, 0, 0};
  const auto* input = reinterpret_cast<const std::uint8_t*>(children);
  hash_many(job, input, k_blake3_block_bytes, count, values);
}

}  // namespace

const Blake3Kernel k_blake3_avx512 = {"avx512", hash_chunks<IntoLanes::shuffled>,
                                      copy_and_hash_chunks<IntoLanes::shuffled>, hash_parents};
const Blake3Kernel k_blake3_avx512_moved = {"avx512-moved", hash_chunks<IntoLanes::moved>,
                                            copy_and_hash_chunks<IntoLanes::moved>, hash_parents};

}  // namespace wdelta
