// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx2.hpp"

#include "engine/decoding_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_lanes = 8;

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

// One coder takes one symbol, and one word where it needs it. Which do is not to be foretold: no branch depends on it,
// and the word is loaded in any case. Words are counted with the carry of the comparison: one step behind the other for
// each symbol, where a chosen pointer takes two. By hand, for every register is needed: compilers keep half of the
// states in memory, which takes half as long again. `of_table` is added to the address of the table.
#define WDELTA_DECODE(lane)                                     \
  "mov %[state" #lane                                           \
  "], %k[slot]\n\t"                                             \
  "and $1023, %k[slot]\n\t"                                     \
  "movzbl %c[of_table](%[table],%[slot]), %k[symbol]\n\t"       \
  "shr $10, %[state" #lane                                      \
  "]\n\t"                                                       \
  "imul %c[of_table]+1024(%[table],%[symbol],8), %[state" #lane \
  "]\n\t"                                                       \
  "sub %c[of_table]+1028(%[table],%[symbol],8), %k[slot]\n\t"   \
  "add %k[slot], %[state" #lane                                 \
  "]\n\t"                                                       \
  "movzwl (%[words],%[words_taken],2), %k[slot]\n\t"            \
  "mov %b[symbol], " #lane                                      \
  "(%[symbols])\n\t"                                            \
  "mov %[state" #lane                                           \
  "], %k[symbol]\n\t"                                           \
  "shl $16, %k[symbol]\n\t"                                     \
  "or %k[slot], %k[symbol]\n\t"                                 \
  "cmp $0x8000, %[state" #lane                                  \
  "]\n\t"                                                       \
  "cmovb %k[symbol], %[state" #lane                             \
  "]\n\t"                                                       \
  "adc $0, %[words_taken]\n\t"
#define WDELTA_STATES                                                                                             \
  [state0] "+&r"(states.s0), [state1] "+&r"(states.s1), [state2] "+&r"(states.s2), [state3] "+&r"(states.s3),     \
      [state4] "+&r"(states.s4), [state5] "+&r"(states.s5), [state6] "+&r"(states.s6), [state7] "+&r"(states.s7), \
      [words_taken] "+&r"(words_taken), [slot] "=&r"(slot), [symbol] "=&r"(symbol)

/// Eight coders take a symbol of one class each.
[[gnu::always_inline]] inline void decode_eight(const DecodeTable& table, States& states, const std::uint8_t* words,
                                                std::uint64_t& words_taken, std::uint8_t* symbols) {
  std::uint64_t slot;
  std::uint64_t symbol;
  asm(WDELTA_DECODE(0) WDELTA_DECODE(1) WDELTA_DECODE(2) WDELTA_DECODE(3)  //
      WDELTA_DECODE(4) WDELTA_DECODE(5) WDELTA_DECODE(6) WDELTA_DECODE(7)
      : WDELTA_STATES
      : [table] "r"(&table), [of_table] "i"(0), [words] "r"(words), [symbols] "r"(symbols)
      : "cc", "memory");
}

/// The same where they are of different classes: the table of each, `of_table` bytes behind.
template <std::size_t of_table>
[[gnu::always_inline]] inline void decode_eight_mixed(const DecodeTable* const (&tables)[k_lanes], States& states,
                                                      const std::uint8_t* words, std::uint64_t& words_taken,
                                                      std::uint8_t* symbols) {
#define WDELTA_DECODE_WITH(lane) "mov 8*" #lane "+%[tables], %[table]\n\t" WDELTA_DECODE(lane)
  std::uint64_t slot;
  std::uint64_t symbol;
  const DecodeTable* table;
  asm(WDELTA_DECODE_WITH(0) WDELTA_DECODE_WITH(1) WDELTA_DECODE_WITH(2) WDELTA_DECODE_WITH(3)  //
      WDELTA_DECODE_WITH(4) WDELTA_DECODE_WITH(5) WDELTA_DECODE_WITH(6) WDELTA_DECODE_WITH(7)
      : WDELTA_STATES, [table] "=&r"(table)
      : [tables] "o"(tables), [of_table] "i"(of_table), [words] "r"(words), [symbols] "r"(symbols)
      : "cc", "memory");
#undef WDELTA_DECODE_WITH
}
#undef WDELTA_DECODE
#undef WDELTA_STATES

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
      for (; is_room() && change_classes[begin + k_lanes - 1] == k; begin += k_lanes) {
        decode_eight(tables[2 * k], taking_turns, words, words_taken, gaps + begin);
        decode_eight(tables[2 * k + 1], taking_turns, words, words_taken, steps + begin);
      }
      if (!is_room()) break;
      const DecodeTable* of_lanes[k_lanes];
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) of_lanes[lane] = tables + 2 * change_classes[begin + lane];
      decode_eight_mixed<0>(of_lanes, taking_turns, words, words_taken, gaps + begin);
      decode_eight_mixed<sizeof(DecodeTable)>(of_lanes, taking_turns, words, words_taken, steps + begin);
      begin += k_lanes;
    }
    taking_turns.store(states);
    words += 2 * words_taken;
  }
  return decode_symbols_scalar(tables, change_classes + begin, changes - begin, lanes, states, words, words_end,
                               gaps + begin, steps + begin);
}

}  // namespace wdelta
