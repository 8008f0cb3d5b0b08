// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx2.hpp"

#include "engine/decoding_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_lanes = 8;

/// Takes one symbol from a coder, and one word where it needs it. Which do is not to be foretold: no branch depends on
/// it, and the word is loaded in any case. Words are counted with the carry of the comparison: one step behind the
/// other for each symbol, where a chosen pointer takes two.
std::uint8_t decode_one(const DecodeTable& table, std::uint32_t& state, const std::uint8_t* words,
                        std::uint64_t& words_taken) {
  const std::uint32_t slot = state & 1023;
  const std::uint8_t symbol = table.symbols[slot];
  std::uint32_t next = table.of[symbol].frequency * (state >> 10) + slot - table.of[symbol].begin;
  std::uint16_t word;
  __builtin_memcpy(&word, words + 2 * words_taken, sizeof(word));
  const std::uint32_t refilled = next << 16 | word;
  asm("cmp $0x8000, %[next]\n\t"
      "cmovb %[refilled], %[next]\n\t"
      "adc $0, %[words_taken]"
      : [next] "+&r"(next), [words_taken] "+&r"(words_taken)
      : [refilled] "r"(refilled)
      : "cc");
  state = next;
  return symbol;
}

/// The states of eight coders, in registers: an array would be in memory.
struct States {
  explicit States(const std::uint32_t* from)
      : s0(from[0]), s1(from[1]), s2(from[2]), s3(from[3]), s4(from[4]), s5(from[5]), s6(from[6]), s7(from[7]) {}
  void store(std::uint32_t* to) const {
    const std::uint32_t all[k_lanes] = {s0, s1, s2, s3, s4, s5, s6, s7};
    __builtin_memcpy(to, all, sizeof(all));
  }
  std::uint32_t s0, s1, s2, s3, s4, s5, s6, s7;
};

/// Eight coders take a symbol each. By hand, for every register is needed: compilers keep half of the states in memory,
/// which takes half as long again.
[[gnu::always_inline]] inline void decode_eight(const DecodeTable& table, States& states, const std::uint8_t* words,
                                                std::uint64_t& words_taken, std::uint8_t* symbols) {
#define WDELTA_DECODE(lane)                          \
  "mov %[state" #lane                                \
  "], %k[slot]\n\t"                                  \
  "and $1023, %k[slot]\n\t"                          \
  "movzbl (%[table],%[slot]), %k[symbol]\n\t"        \
  "shr $10, %[state" #lane                           \
  "]\n\t"                                            \
  "imul 1024(%[table],%[symbol],8), %[state" #lane   \
  "]\n\t"                                            \
  "sub 1028(%[table],%[symbol],8), %k[slot]\n\t"     \
  "add %k[slot], %[state" #lane                      \
  "]\n\t"                                            \
  "movzwl (%[words],%[words_taken],2), %k[slot]\n\t" \
  "mov %b[symbol], " #lane                           \
  "(%[symbols])\n\t"                                 \
  "mov %[state" #lane                                \
  "], %k[symbol]\n\t"                                \
  "shl $16, %k[symbol]\n\t"                          \
  "or %k[slot], %k[symbol]\n\t"                      \
  "cmp $0x8000, %[state" #lane                       \
  "]\n\t"                                            \
  "cmovb %k[symbol], %[state" #lane                  \
  "]\n\t"                                            \
  "adc $0, %[words_taken]\n\t"
  std::uint64_t slot;
  std::uint64_t symbol;
  asm(WDELTA_DECODE(0) WDELTA_DECODE(1) WDELTA_DECODE(2) WDELTA_DECODE(3)  //
      WDELTA_DECODE(4) WDELTA_DECODE(5) WDELTA_DECODE(6) WDELTA_DECODE(7)
      : [state0] "+&r"(states.s0), [state1] "+&r"(states.s1), [state2] "+&r"(states.s2), [state3] "+&r"(states.s3),
        [state4] "+&r"(states.s4), [state5] "+&r"(states.s5), [state6] "+&r"(states.s6), [state7] "+&r"(states.s7),
        [words_taken] "+&r"(words_taken), [slot] "=&r"(slot), [symbol] "=&r"(symbol)
      : [table] "r"(&table), [words] "r"(words), [symbols] "r"(symbols)
      : "cc", "memory");
#undef WDELTA_DECODE
}

/// The same where they are of different classes.
[[gnu::noinline]] void decode_eight_mixed(const DecodeTable* tables, const std::uint8_t* classes,
                                          std::uint32_t (&state)[k_lanes], const std::uint8_t* words,
                                          std::uint64_t& words_taken, std::uint8_t* symbols) {
  std::uint64_t taken = words_taken;
#pragma GCC unroll 8
  for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
    symbols[lane] = decode_one(tables[2 * classes[lane]], state[lane], words, taken);
  }
  words_taken = taken;
}

}  // namespace

// One after the other, not side by side in a vector: gathering eight slots takes longer than loading them.
const std::uint8_t* decode_symbols_avx2(const DecodeTable* tables, const std::uint8_t* change_classes,
                                        std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                        const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                        std::uint8_t* steps) {
  constexpr std::uint64_t k_words_in_round = 2 * k_lanes;  // at most
  std::uint32_t begin = 0;
  if (lanes == k_lanes) {
    States taking_turns(states);
    const auto words_there = static_cast<std::uint64_t>(words_end - words) / 2;
    std::uint64_t words_taken = 0;
    const auto is_room = [&] { return begin + k_lanes <= changes && words_taken + k_words_in_round <= words_there; };
    while (is_room()) {
      const std::uint8_t k = change_classes[begin];
      const std::uint64_t all_of_class = 0x0101010101010101 * k;
      const auto is_of_class = [&] {
        std::uint64_t classes;
        __builtin_memcpy(&classes, change_classes + begin, sizeof(classes));
        return classes == all_of_class;
      };
      for (; is_room() && is_of_class(); begin += k_lanes) {
        decode_eight(tables[2 * k], taking_turns, words, words_taken, gaps + begin);
        decode_eight(tables[2 * k + 1], taking_turns, words, words_taken, steps + begin);
      }
      if (!is_room()) break;
      std::uint32_t mixed[k_lanes];
      taking_turns.store(mixed);
      std::uint64_t taken = words_taken;
      decode_eight_mixed(tables, change_classes + begin, mixed, words, taken, gaps + begin);
      decode_eight_mixed(tables + 1, change_classes + begin, mixed, words, taken, steps + begin);
      taking_turns = States(mixed);
      words_taken = taken;
      begin += k_lanes;
    }
    taking_turns.store(states);
    words += 2 * words_taken;
  }
  return decode_symbols_scalar(tables, change_classes + begin, changes - begin, lanes, states, words, words_end,
                               gaps + begin, steps + begin);
}

}  // namespace wdelta
