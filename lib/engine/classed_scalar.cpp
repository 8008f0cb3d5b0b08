// SPDX-License-Identifier: Apache-2.0
#include "engine/class_runs_scalar.hpp"
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

constexpr std::uint32_t k_never = ~std::uint32_t{0};  // more members than blocks have elements
constexpr std::uint64_t k_ones = 0x0101010101010101;

/// Of eight bytes that are together less than 256.
std::uint32_t sum_of(std::uint64_t bytes) { return static_cast<std::uint32_t>((bytes * k_ones) >> 56); }

/// Those elements of a run that are of one class.
class MembersOfRun {
 public:
  MembersOfRun(const std::uint8_t* contexts, ContextRange range) {
    for (std::uint32_t i = 0; i < k_run; ++i) {
      is_[i] = range.has(contexts[i]) ? 1 : 0;
    }
  }
  /// Where the one is that has `rank` others before it; there are more than that. Nothing branches on where.
  std::uint32_t find(std::uint32_t rank) const {
    std::uint32_t word = 0;
    std::uint32_t is_further = ~0U;
    const auto pass = [&](std::uint32_t members, std::uint32_t words) {
      is_further &= 0 - (rank >= members ? 1U : 0U);
      rank -= members & is_further;
      word += words & is_further;
    };
    for (std::uint32_t i = 0; i + k_quarter < k_words; i += k_quarter) {
      pass(sum_of(word_at(i) + word_at(i + 1) + word_at(i + 2) + word_at(i + 3)), k_quarter);
    }
    is_further = ~0U;
    for (std::uint32_t i = 0; i + 1 < k_quarter; ++i) pass(sum_of(word_at(word)), 1);
    // The first byte with more than that up to it.
    const std::uint64_t up_to = word_at(word) * k_ones;
    const std::uint64_t is_behind = (up_to + k_ones * (0x7f - rank)) & (k_ones << 7);
    return 8 * word + static_cast<std::uint32_t>(__builtin_ctzll(is_behind)) / 8;
  }

 private:
  static constexpr std::uint32_t k_words = k_run / 8;
  static constexpr std::uint32_t k_quarter = 4;
  std::uint64_t word_at(std::uint32_t i) const { return load<std::uint64_t>(is_, i); }

  std::uint8_t is_[k_run];
};

/// The changes of a strip that are to come, in one of its blocks.
template <class T, Order order>
class ComingChanges {
 public:
  ComingChanges(const ClassedChanges& changes, void* elements)
      : changes_(changes), elements_(static_cast<char*>(elements)) {
    list_classes(changes.bounds, changes.bound_count, class_of_);
    for (std::uint32_t& left : left_) left = k_never;
    for (std::uint32_t k = 0, begin = 0; k <= changes.bound_count; ++k) {
      next_[k] = begin + changes.progress->changes[k];
      end_[k] = begin += changes.class_changes[k];
      if (next_[k] < end_[k]) left_[k] = rank_of(next_[k]) - changes.progress->members[k];
      waiting_ += end_[k] - next_[k];
    }
  }

  void make_those_in(std::uint32_t count) {
    // Where there are many, one look per element takes less.
    if (waiting_ / changes_.blocks_left > count / k_elements_per_look) {
      look_at_each(count);
    } else {
      count_runs(count);
    }
  }

  /// Brings the progress up to date; false where the block is the last of its strip and changes are left over.
  bool finish() const {
    if (changes_.blocks_left == 1) return waiting_ == 0;
    for (std::uint32_t k = 0, begin = 0; k <= changes_.bound_count; ++k) {
      changes_.progress->changes[k] = next_[k] - begin;
      begin = end_[k];
      if (next_[k] < end_[k]) changes_.progress->members[k] = rank_of(next_[k]) - left_[k];
    }
    return true;
  }

 private:
  static constexpr std::uint32_t k_elements_per_look = 16;

  std::uint8_t context_at(std::uint32_t i) const { return context_of<T, order>(load<T>(elements_, i)); }
  std::uint32_t rank_of(std::uint32_t change) const { return load<std::uint32_t>(changes_.ranks, change); }

  /// Makes the next change of class k, whose element is the i-th.
  void move_next(std::uint32_t k, std::uint32_t i) {
    T move = load<T>(changes_.moves, next_[k]);
    if (changes_.flips != nullptr && (changes_.flips[i / 64] >> (i % 64) & 1) != 0) move = static_cast<T>(0 - move);
    store<T>(elements_, i, ordered<T, order>(static_cast<T>(ordered<T, order>(load<T>(elements_, i)) + move)));
    --waiting_;
    ++next_[k];
    left_[k] = next_[k] < end_[k] ? rank_of(next_[k]) - rank_of(next_[k] - 1) - 1U : k_never;
  }

  void look_at_each(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count && waiting_ > 0; ++i) {
      const std::uint8_t k = class_of_[context_at(i)];
      if (left_[k]-- == 0) move_next(k, i);
    }
  }

  // Of each run the members of all classes are counted first; a change is looked for where its rank comes up.
  void count_runs(std::uint32_t count) {
    const ClassCensus census(class_of_);
    std::uint8_t contexts[k_run] = {};
    for (std::uint32_t first = 0; first < count && waiting_ > 0; first += k_run) {
      const std::uint32_t length = count - first < k_run ? count - first : k_run;
      list_contexts<T, order>(elements_ + first * sizeof(T), length, contexts);
      std::uint8_t members[k_classes];
      census.count(contexts, length, members);
      for (std::uint32_t coming = classes_coming(members); coming != 0; coming &= coming - 1) {
        const auto k = static_cast<std::uint32_t>(__builtin_ctz(coming));
        const MembersOfRun of_class(contexts, contexts_of_class(changes_.bounds, changes_.bound_count, k));
        std::uint32_t before = 0;  // members of the run
        do {
          before += left_[k];
          move_next(k, first + of_class.find(before++));
        } while (left_[k] < members[k] - before);
        members[k] = static_cast<std::uint8_t>(members[k] - before);
      }
      for (std::uint32_t k = 0; k < k_classes; ++k) left_[k] -= members[k];
    }
  }

  /// A bit for each class whose next change is among so many members.
  std::uint32_t classes_coming(const std::uint8_t (&members)[k_classes]) const {
    std::uint8_t is_coming[k_classes];
    for (std::uint32_t k = 0; k < k_classes; ++k) is_coming[k] = left_[k] < members[k] ? 1 : 0;
    const auto bits_of = [&](std::uint32_t half) {
      return static_cast<std::uint32_t>(load<std::uint64_t>(is_coming, half) * 0x0102040810204080 >> 56);
    };
    return bits_of(0) | bits_of(1) << 8;
  }

  const ClassedChanges& changes_;
  char* elements_;
  std::uint8_t class_of_[256];
  std::uint32_t left_[k_classes];  // members of each class before its next change
  std::uint32_t next_[k_classes];
  std::uint32_t end_[k_classes];
  std::uint32_t waiting_ = 0;
};

template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  ComingChanges<T, order> coming(*changes, elements);
  coming.make_those_in(count);
  return coming.finish();
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
