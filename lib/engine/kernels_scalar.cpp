// SPDX-License-Identifier: Apache-2.0
#include "engine/class_runs_scalar.hpp"
#include "engine/coding_scalar.hpp"
#include "engine/decoding_scalar.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"
#include "engine/signs_scalar.hpp"

namespace wdelta {
namespace {

template <class T, Order order>
T stepped(T base, T step) {
  const T s = static_cast<T>((step >> 1) ^ static_cast<T>(0 - (step & 1)));
  return ordered<T, order>(static_cast<T>(ordered<T, order>(base) + s));
}

// Compares eight bytes at a time: in sparse changes most words are equal and the one branch foretells itself.
template <class T, Order order>
std::uint32_t find_changes(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                           void* steps) {
  constexpr std::uint32_t per_word = 8 / sizeof(T);
  constexpr int bits = 8 * sizeof(T);
  std::uint32_t found = 0;
  const auto note = [&](std::uint32_t position, T from, T to) {
    positions[found] = static_cast<std::uint16_t>(position);
    store<T>(steps, found++, step_between<T, order>(from, to));
  };
  const std::uint32_t words = count / per_word;
  for (std::uint32_t word = 0; word < words; ++word) {
    const std::uint64_t from = load<std::uint64_t>(base, word);
    const std::uint64_t to = load<std::uint64_t>(next, word);
    std::uint64_t different = from ^ to;
    while (different != 0) {
      const int lane = __builtin_ctzll(different) / bits;
      note(word * per_word + static_cast<std::uint32_t>(lane), static_cast<T>(from >> (lane * bits)),
           static_cast<T>(to >> (lane * bits)));
      different &= ~(static_cast<std::uint64_t>(static_cast<T>(-1)) << (lane * bits));
    }
  }
  for (std::uint32_t i = words * per_word; i < count; ++i) {
    const T from = load<T>(base, i);
    const T to = load<T>(next, i);
    if (from != to) note(i, from, to);
  }
  return found;
}

template <class T, Order order>
void apply_changes(void* elements, const std::uint16_t* positions, const void* steps, std::uint32_t changes) {
  for (std::uint32_t i = 0; i < changes; ++i) {
    const std::size_t at = load<std::uint16_t>(positions, i);
    store<T>(elements, at, stepped<T, order>(load<T>(elements, at), load<T>(steps, i)));
  }
}

// In runs short enough for the first-level cache: two plain loops become vectors where one over all planes does not.
constexpr std::size_t k_planes_run = 256;

template <class T, Order order>
void split_steps(const void* base, const void* next, std::uint32_t count, std::uint8_t* planes) {
  for (std::size_t first = 0; first < count; first += k_planes_run) {
    const std::size_t length = count - first < k_planes_run ? count - first : k_planes_run;
    const char* const from = static_cast<const char*>(base) + first * sizeof(T);
    const char* const to = static_cast<const char*>(next) + first * sizeof(T);
    T steps[k_planes_run];
    for (std::size_t i = 0; i < length; ++i) steps[i] = step_between<T, order>(load<T>(from, i), load<T>(to, i));
    for (std::size_t k = 0; k < sizeof(T); ++k) {
      std::uint8_t* const plane = planes + k * count + first;
      for (std::size_t i = 0; i < length; ++i) plane[i] = static_cast<std::uint8_t>(steps[i] >> (8 * k));
    }
  }
}

template <class T, Order order>
void merge_steps(void* elements, std::uint32_t count, const std::uint8_t* planes) {
  for (std::size_t i = 0; i < count; ++i) {
    T step = 0;
    for (std::size_t k = 0; k < sizeof(T); ++k) {
      step = static_cast<T>(step | static_cast<T>(static_cast<T>(planes[k * count + i]) << (8 * k)));
    }
    store<T>(elements, i, stepped<T, order>(load<T>(elements, i), step));
  }
}

/// How many elements of a run, of those before `end`, are of one class.
std::uint8_t members_before(const std::uint8_t* contexts, ContextRange range, std::uint32_t end) {
  const auto first_behind = static_cast<std::uint8_t>(end);
  std::uint8_t members = 0;
  for (std::uint8_t i = 0; i < k_run; ++i) {
    const std::uint8_t is_before = i < first_behind ? 1 : 0;
    const std::uint8_t is_member = range.has(contexts[i]) ? 1 : 0;
    members = static_cast<std::uint8_t>(members + (is_before & is_member));
  }
  return members;
}

template <class T, Order order>
void rank_changes(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
                  const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks,
                  std::uint8_t* change_classes, std::uint32_t* all_members) {
  std::uint8_t class_of[256];
  list_classes(bounds, bound_count, class_of);
  const ClassCensus census(class_of);
  std::uint32_t before_run[k_classes] = {};
  std::uint8_t contexts[k_run] = {};
  std::uint32_t change = 0;
  for (std::uint32_t first = 0; first < count; first += k_run) {
    const std::uint32_t length = count - first < k_run ? count - first : k_run;
    list_contexts<T, order>(static_cast<const char*>(elements) + first * sizeof(T), length, contexts);
    for (; change < changes && positions[change] < first + length; ++change) {
      const std::uint32_t in_run = positions[change] - first;
      const std::uint8_t k = class_of[contexts[in_run]];
      const ContextRange range = contexts_of_class(bounds, bound_count, k);
      change_classes[change] = k;
      ranks[change] = static_cast<std::uint16_t>(before_run[k] + members_before(contexts, range, in_run));
    }
    std::uint8_t members[k_classes];
    census.count(contexts, length, members);
    for (std::uint32_t k = 0; k < k_classes; ++k) before_run[k] += members[k];
  }
  for (std::uint32_t k = 0; k < k_classes; ++k) all_members[k] = before_run[k];
}

template <class T, Order order>
std::uint32_t find_ranked_changes(const void* base, const void* next, std::uint32_t count, const std::uint8_t* bounds,
                                  std::uint32_t bound_count, std::uint16_t* positions, void* steps,
                                  std::uint16_t* ranks, std::uint8_t* change_classes, std::uint32_t* members) {
  const std::uint32_t changes = find_changes<T, order>(base, next, count, positions, steps);
  if (changes > 0) {
    rank_changes<T, order>(base, count, bounds, bound_count, positions, changes, ranks, change_classes, members);
  }
  return changes;
}

template <class T, Order order>
constexpr BlockKernels k_block = [] {
  BlockKernels kernels = {
      find_changes<T, order>, apply_changes<T, order>, split_steps<T, order>, merge_steps<T, order>, nullptr, nullptr};
  if constexpr (sizeof(T) <= 4) {
    kernels.rank_changes = rank_changes<T, order>;
    kernels.find_ranked_changes = find_ranked_changes<T, order>;
  }
  return kernels;
}();

}  // namespace

const KernelTable k_kernels_scalar = {
    {
        {k_block<std::uint8_t, Order::plain>, k_block<std::uint8_t, Order::sign_magnitude>},
        {k_block<std::uint16_t, Order::plain>, k_block<std::uint16_t, Order::sign_magnitude>},
        {k_block<std::uint32_t, Order::plain>, k_block<std::uint32_t, Order::sign_magnitude>},
        {k_block<std::uint64_t, Order::plain>, k_block<std::uint64_t, Order::sign_magnitude>},
    },
    k_classed_scalar,
    {order_by_class_scalar, order_bytes_by_class_scalar, count_symbols_scalar, encode_symbols_scalar,
     decode_symbols_scalar, split_raw_bits_scalar},
    {list_rows_scalar, weigh_columns_scalar, fit_columns_scalar, count_negatives_scalar, set_signs_scalar}};

}  // namespace wdelta
