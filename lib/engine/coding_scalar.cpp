// SPDX-License-Identifier: Apache-2.0
#include "engine/coding_scalar.hpp"

#include "engine/entry_fetcher.hpp"
#include "engine/kernel_elements.hpp"

namespace wdelta {
namespace {

std::uint32_t encoded(std::uint64_t entry, std::uint32_t state, std::uint16_t*& words) {
  const std::uint64_t factor = entry & ((std::uint64_t{1} << 52) - 1);
  const auto begin = static_cast<std::uint32_t>(entry & 0x3ff);
  const auto others = static_cast<std::uint32_t>(entry >> 53);  // 1024 less the frequency
  if (state + (others << 21) >= std::uint32_t{1} << 31) {       // not below the frequency times 2^21
    *--words = static_cast<std::uint16_t>(state);
    state >>= 16;
  }
  __extension__ using Product = unsigned __int128;
  const auto quotient = static_cast<std::uint32_t>((Product{2 * state} * factor) >> 52);
  return state + quotient * others + begin;
}

/// Where the changes of each class begin among those ordered by class.
struct NextOfClass {
  std::uint32_t of[16] = {};

  NextOfClass(const std::uint8_t* change_classes, std::uint32_t changes) {
    std::uint32_t counts[16] = {};
    for (std::uint32_t i = 0; i < changes; ++i) ++counts[change_classes[i]];
    for (std::uint32_t k = 1; k < 16; ++k) of[k] = of[k - 1] + counts[k - 1];
  }
};

template <class T>
void order(const ChangesInOrder& changes, const ChangesByClass& ordered) {
  NextOfClass next(changes.classes, changes.count);
  std::uint32_t* const ends = ordered.rank_ends;
  for (std::uint32_t k = 0; k < changes.class_count; ++k) {
    ordered.class_changes[k] = (k + 1 < changes.class_count ? next.of[k + 1] : changes.count) - next.of[k];
    ends[k] = 0;
  }
  for (std::uint32_t i = 0; i < changes.count; ++i) {
    const std::uint8_t k = changes.classes[i];
    const std::uint32_t to = next.of[k]++;
    ordered.gaps[to] = static_cast<std::uint16_t>(changes.ranks[i] - ends[k]);
    ends[k] = changes.ranks[i] + 1U;
    static_cast<T*>(ordered.steps)[to] = static_cast<const T*>(changes.steps)[i];
  }
}

}  // namespace

void order_by_class_scalar(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered) {
  with_narrow_width(width_bytes, [&]<class T>(T) { order<T>(*changes, *ordered); });
}

void order_bytes_by_class_scalar(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t,
                                 const std::uint8_t* bytes, std::uint8_t* ordered) {
  NextOfClass next(change_classes, changes);
  for (std::uint32_t i = 0; i < changes; ++i) ordered[next.of[change_classes[i]]++] = bytes[i];
}

void count_symbols_scalar(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t, std::uint32_t* counts) {
  for (std::uint32_t i = 0; i < count; ++i) ++counts[symbols[i]];
}

void encode_entries_scalar(const std::uint64_t* of_gaps, const std::uint64_t* of_steps, std::uint32_t changes,
                           SymbolStream& stream) {
  std::uint16_t* words = stream.words;
  std::uint32_t* const states = stream.states;
  for (std::uint32_t end = changes; end > 0;) {
    const std::uint32_t begin = (end - 1) / stream.lanes * stream.lanes;
    for (std::uint32_t i = end; i-- > begin;) states[i - begin] = encoded(of_steps[i], states[i - begin], words);
    for (std::uint32_t i = end; i-- > begin;) states[i - begin] = encoded(of_gaps[i], states[i - begin], words);
    end = begin;
  }
  stream.words = words;
}

void encode_stream_scalar(const std::uint64_t* entries, SymbolStream& stream) {
  EntryFetcher fetched(entries, stream.pairs);
  while (fetched.end() > 0) {
    const std::uint32_t end = fetched.end();
    const std::uint32_t begin = (end - 1) / EntryFetcher::k_at_once * EntryFetcher::k_at_once;
    fetched.fetch_from(begin);
    encode_entries_scalar(fetched.gaps, fetched.steps, end - begin, stream);
  }
}

void encode_symbols_scalar(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count) {
  for (std::uint32_t i = 0; i < stream_count; ++i) encode_stream_scalar(entries, streams[i]);
}

namespace {

/// Of a number: those below 4 have none, others all but the two highest.
std::uint32_t raw_bits_of(std::uint32_t number) { return 30U - static_cast<std::uint32_t>(__builtin_clz(number | 3)); }

template <class T>
std::uint64_t split(const std::uint32_t* gaps, const T* steps, std::uint32_t changes, std::uint8_t* gap_symbols,
                    std::uint8_t* step_symbols, std::uint8_t* raw) {
  std::uint64_t pending = 0;
  std::uint32_t pending_bits = 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < changes; ++i) {
    const std::uint32_t gap = gaps[i];
    const std::uint32_t step = steps[i];
    const std::uint32_t distance = (step - 1) >> 1;  // less 1
    const std::uint32_t gap_bits = raw_bits_of(gap);
    const std::uint32_t distance_bits = raw_bits_of(distance);
    // What is above the raw bits is 2 or 3, or for numbers below 4 the number itself.
    gap_symbols[i] = static_cast<std::uint8_t>(2 * gap_bits + (gap >> gap_bits));
    step_symbols[i] = static_cast<std::uint8_t>(2 * (2 * distance_bits + (distance >> distance_bits)) + (step & 1));
    const std::uint64_t rests = (gap & ((1U << gap_bits) - 1)) | std::uint64_t{distance & ((1U << distance_bits) - 1)}
                                                                     << gap_bits;
    pending |= rests << pending_bits;
    pending_bits += gap_bits + distance_bits;
    __builtin_memcpy(raw + bytes, &pending, sizeof(pending));
    bytes += pending_bits / 8;
    pending >>= pending_bits & 56;
    pending_bits &= 7;
  }
  return 8 * bytes + pending_bits;
}

}  // namespace

std::uint64_t split_raw_bits_scalar(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                    std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                    std::uint8_t* raw) {
  return with_narrow_width(width_bytes, [&]<class T>(T) {
    return split(gaps, static_cast<const T*>(steps), changes, gap_symbols, step_symbols, raw);
  });
}

}  // namespace wdelta
