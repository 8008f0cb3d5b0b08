// SPDX-License-Identifier: Apache-2.0
// What encoders look up for each symbol; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include "engine/kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

/// Fetches entries some rounds before they are used, one after the other, which is faster than gathering them; the last
/// change first, as they are used: what was written alone right before it is read in a vector is waited for.
class EntryFetcher {
 public:
  static constexpr std::uint32_t k_at_once = 256;

  EntryFetcher(const std::uint64_t* entries, const SymbolPairs& symbols) : entries_(entries), symbols_(&symbols) {
    while (at_ < k_classes * symbols.strips) first_of_class_ += symbols.class_changes[at_++];
    end_ = first_of_class_;
  }

  /// Those not fetched so far come before.
  std::uint32_t end() const { return end_; }
  /// Of changes `begin`, at most k_at_once before the end, to the end, which is at `begin` then.
  void fetch_from(std::uint32_t begin) {
    const std::uint8_t* const gap_symbols = symbols_->gaps;
    const std::uint8_t* const step_symbols = symbols_->steps;
    // Of 64 bits, as addresses are: else each would be worked out anew.
    std::size_t i = end_;
    while (i > begin) {
      while (first_of_class_ == i) first_of_class_ -= symbols_->class_changes[--at_];
      const std::uint64_t* const of_class = entries_ + k_class_entries * (at_ % k_classes);
      const std::size_t first = first_of_class_ > begin ? first_of_class_ : begin;
      const auto fetch = [&](std::size_t change) {
        gaps[change - begin] = of_class[gap_symbols[change]];
        steps[change - begin] = of_class[k_first_step_entry + step_symbols[change]];
      };
      for (; i - first >= 4; i -= 4) {
#pragma GCC unroll 4
        for (std::size_t k = 1; k <= 4; ++k) fetch(i - k);
      }
      while (i > first) fetch(--i);
    }
    end_ = begin;
  }

  alignas(64) std::uint64_t gaps[k_at_once];
  alignas(64) std::uint64_t steps[k_at_once];

 private:
  static constexpr std::uint32_t k_classes = 16;

  const std::uint64_t* entries_;
  const SymbolPairs* symbols_;
  std::uint32_t at_ = 0;              // in class_changes
  std::uint32_t first_of_class_ = 0;  // there: all before it are of classes or blocks before
  std::uint32_t end_;
};

}  // namespace
}  // namespace wdelta
