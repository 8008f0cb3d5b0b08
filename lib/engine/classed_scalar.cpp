// SPDX-License-Identifier: Apache-2.0
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"

namespace wdelta {
namespace {

template <class T>
std::uint32_t join_raw_bits(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                            std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                            std::uint32_t* ranks, void* moves, std::uint64_t* raw_bits) {
  const auto bits_of = [](std::uint32_t bucket) { return bucket < 4 ? 0 : bucket / 2 - 1; };
  const auto begin = [](std::uint32_t bucket, std::uint32_t bits) {
    return bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  };
  std::uint64_t at = *raw_bits;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (const std::uint32_t end = i + class_changes[k]; i < end; ++i) {
      const std::uint32_t gap_bits = bits_of(gap_symbols[i]);
      const std::uint32_t distance_bucket = step_symbols[i] / 2U;
      const std::uint32_t distance_bits = bits_of(distance_bucket);
      std::uint64_t bits;
      __builtin_memcpy(&bits, raw + at / 8, sizeof(bits));
      bits >>= at % 8;
      const std::uint32_t distance = 1 + begin(distance_bucket, distance_bits) +
                                     (static_cast<std::uint32_t>(bits >> gap_bits) & ((1U << distance_bits) - 1));
      const std::uint32_t negative = 0 - (step_symbols[i] & 1U);
      store<T>(moves, i, static_cast<T>((distance ^ negative) - negative));
      at += gap_bits + distance_bits;
      next += begin(gap_symbols[i], gap_bits) + (static_cast<std::uint32_t>(bits) & ((1U << gap_bits) - 1));
      store<std::uint32_t>(ranks, i, static_cast<std::uint32_t>(next++));
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 0xffffffff ? 0xffffffff : static_cast<std::uint32_t>(last);
}

/// Members of classes in a run of elements, counted in bytes of two words: in registers, where a table of counts would
/// make each element wait for the last of its class.
struct ClassCensus {
  std::uint64_t of_context[256][2] = {};

  explicit ClassCensus(const std::uint8_t* class_of) {
    for (std::uint32_t context = 0; context < 256; ++context) {
      of_context[context][class_of[context] / 8] = std::uint64_t{1} << (class_of[context] % 8 * 8);
    }
  }
};

constexpr std::uint32_t k_run = 64;

/// Which of the classes of a run are k.
std::uint64_t members_of(const std::uint8_t (&classes)[k_run], std::uint32_t k) {
  constexpr std::uint64_t k_ones = 0x0101010101010101;
  std::uint64_t members = 0;
  for (std::uint32_t eight = 0; eight < k_run / 8; ++eight) {
    const std::uint64_t differ = load<std::uint64_t>(classes, eight) ^ (k_ones * k);
    const std::uint64_t same = ~((differ & 0x7f * k_ones) + 0x7f * k_ones) & ~differ & (k_ones << 7);
    members |= ((same >> 7) * 0x0102040810204080 >> 56) << (8 * eight);
  }
  return members;
}

// Each class's rank that is waited for stands in a table. The members of all classes in a run are counted first; of
// those classes alone whose rank comes up in it, it is looked for.
template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  constexpr std::uint32_t k_never = ~std::uint32_t{0};
  std::uint8_t class_of[256];
  list_classes(changes->bounds, changes->bound_count, class_of);
  const auto rank_of = [&](std::uint32_t change) { return load<std::uint32_t>(changes->ranks, change); };
  StripProgress* const progress = changes->progress;
  std::uint32_t left[16];  // members of the class before the next change
  std::uint32_t next[16];
  std::uint32_t end[16];
  std::uint32_t waiting = 0;
  for (std::uint32_t k = 0, begin = 0; k <= changes->bound_count; ++k) {
    next[k] = begin + progress->changes[k];
    end[k] = begin += changes->class_changes[k];
    left[k] = next[k] < end[k] ? rank_of(next[k]) - progress->members[k] : k_never;
    waiting += end[k] - next[k];
  }
  const auto move_next = [&](std::uint32_t k, std::uint32_t i) {
    T move = load<T>(changes->moves, next[k]);
    if (changes->flips != nullptr && (changes->flips[i / 64] >> (i % 64) & 1) != 0) move = static_cast<T>(0 - move);
    const T element = load<T>(elements, i);
    store<T>(elements, i, ordered<T, order>(static_cast<T>(ordered<T, order>(element) + move)));
    --waiting;
    ++next[k];
    left[k] = next[k] < end[k] ? rank_of(next[k]) - rank_of(next[k] - 1) - 1U : k_never;
  };
  const auto finish = [&] {
    if (changes->blocks_left == 1) return waiting == 0;
    for (std::uint32_t k = 0, begin = 0; k <= changes->bound_count; ++k) {
      progress->changes[k] = next[k] - begin;
      begin = end[k];
      if (next[k] < end[k]) progress->members[k] = rank_of(next[k]) - left[k];
    }
    return true;
  };
  if (waiting / changes->blocks_left > count / k_run) {
    // Most runs would have one: one look per element takes less.
    for (std::uint32_t i = 0; i < count && waiting > 0; ++i) {
      const std::uint8_t k = class_of[context_of<T, order>(load<T>(elements, i))];
      if (left[k]-- == 0) move_next(k, i);
    }
    return finish();
  }
  const ClassCensus census(class_of);
  for (std::uint32_t first = 0; first < count && waiting > 0; first += k_run) {
    const std::uint32_t length = count - first < k_run ? count - first : k_run;
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    for (std::uint32_t i = 0; i < length; ++i) {
      const std::uint64_t* const one = census.of_context[context_of<T, order>(load<T>(elements, first + i))];
      low += one[0];
      high += one[1];
    }
    std::uint32_t members[16];
    std::uint32_t found = 0;
    for (std::uint32_t k = 0; k <= changes->bound_count; ++k) {
      members[k] = static_cast<std::uint8_t>((k < 8 ? low : high) >> (k % 8 * 8));
      found |= left[k] < members[k] ? 1U : 0U;
    }
    std::uint8_t classes[k_run];
    if (found != 0) {
      // No class has the number of what is not there.
      for (std::uint32_t i = 0; i < k_run; ++i) {
        classes[i] = i < length ? class_of[context_of<T, order>(load<T>(elements, first + i))] : 0xff;
      }
    }
    for (std::uint32_t k = 0; k <= changes->bound_count; ++k) {
      if (left[k] < members[k]) {
        std::uint64_t behind = members_of(classes, k);  // the change that was made last
        do {
          members[k] -= left[k] + 1;
          for (; left[k] > 0; --left[k]) behind &= behind - 1;
          move_next(k, first + static_cast<std::uint32_t>(__builtin_ctzll(behind)));
          behind &= behind - 1;
        } while (left[k] < members[k]);
      }
      left[k] -= members[k];
    }
  }
  return finish();
}

template <class T, Order order>
constexpr ClassedKernels k_classed = {join_raw_bits<T>, apply_classed<T, order>, {}};

}  // namespace

const ClassedKernels k_classed_scalar[3][2] = {
    {k_classed<std::uint8_t, Order::plain>, k_classed<std::uint8_t, Order::sign_magnitude>},
    {k_classed<std::uint16_t, Order::plain>, k_classed<std::uint16_t, Order::sign_magnitude>},
    {k_classed<std::uint32_t, Order::plain>, k_classed<std::uint32_t, Order::sign_magnitude>},
};

}  // namespace wdelta
