// SPDX-License-Identifier: Apache-2.0
#include "engine/class_chain.hpp"

#include <algorithm>
#include <bitset>
#include <new>

namespace wdelta {
namespace {

constexpr std::align_val_t k_scratch_alignment{64};

}  // namespace

void ClassChain::FreeScratch::operator()(std::byte* scratch) const {
  ::operator delete[](scratch, k_scratch_alignment);
}

ClassChain::ClassChain() : chained_(std::make_unique<ChainedChanges[]>(k_most_chained)) {}

std::uint8_t ClassChain::first_class(const ClassedChanges& delta, std::uint32_t k) const {
  if (k == 0) return 0;
  return class_of_bound_[k > delta.bound_count ? 256U : delta.bounds[k - 1]];
}

bool ClassChain::add_ranges(const ClassedChanges& delta) {
  for (std::uint32_t k = 0; k <= delta.bound_count; ++k) {
    const ClassRange range = {first_class(delta, k), first_class(delta, k + 1)};
    std::uint8_t& number = range_of_[range.first][range.end];
    if (number != 0) continue;
    if (range_count_ == ranges_.size()) return false;
    ranges_[range_count_++] = range;
    number = static_cast<std::uint8_t>(range_count_);
  }
  return true;
}

// How many from the first on have few enough bounds and classes together that an engine can keep them apart.
std::size_t ClassChain::fit(std::span<const ClassedChanges> deltas) {
  std::bitset<256> is_bound;
  std::size_t fitting = 0;
  while (fitting < std::min<std::size_t>(deltas.size(), k_most_chained)) {
    std::bitset<256> with_next = is_bound;
    for (std::uint32_t k = 0; k < deltas[fitting].bound_count; ++k) with_next.set(deltas[fitting].bounds[k]);
    if (with_next.count() >= k_most_classes) break;
    is_bound = with_next;
    ++fitting;
  }
  bounds_.clear();
  for (std::size_t context = 0; context < is_bound.size(); ++context) {
    if (!is_bound[context]) continue;
    bounds_.push_back(static_cast<std::uint8_t>(context));
    class_of_bound_[context] = static_cast<std::uint8_t>(bounds_.size());
  }
  class_of_bound_[256] = static_cast<std::uint8_t>(bounds_.size() + 1);

  range_count_ = 0;
  for (auto& by_end : range_of_) by_end.fill(0);
  for (std::size_t i = 0; i < fitting; ++i) {
    if (!add_ranges(deltas[i])) fitting = i;
  }
  return fitting;
}

void ClassChain::chain(const ClassedChanges& delta, ChainedChanges& chained) const {
  chained.changes = delta;
  for (std::uint32_t k = 0; k < std::size(chained.range_of_class) && k <= delta.bound_count; ++k) {
    const std::uint8_t number = range_of_[first_class(delta, k)][first_class(delta, k + 1)];
    chained.range_of_class[k] = static_cast<std::uint8_t>(number - 1);
  }
}

std::size_t ClassChain::apply(const ClassedKernels& kernels, std::span<const ClassedChanges> deltas, void* elements,
                              std::uint32_t count) {
  const ChainKernels& chains = kernels.chain;
  for (std::size_t done = 0; done < deltas.size();) {
    // Looking for one delta alone takes longer so than it saves.
    const std::size_t fitting = chains.scratch_bytes == 0 || done + 1 == deltas.size() ? 1 : fit(deltas.subspan(done));
    if (fitting < 2) {
      if (!kernels.apply(elements, count, &deltas[done])) return done;
      ++done;
      continue;
    }
    if (scratch_bytes_ < chains.scratch_bytes) {
      // Left unset: pages that no range needs are never touched.
      scratch_.reset(static_cast<std::byte*>(::operator new[](chains.scratch_bytes, k_scratch_alignment)));
      scratch_bytes_ = chains.scratch_bytes;
    }
    for (std::size_t i = 0; i < fitting; ++i) chain(deltas[done + i], chained_[i]);
    const ClassRanges ranges = {bounds_.data(), static_cast<std::uint32_t>(bounds_.size()), ranges_.data(),
                                range_count_};
    const std::uint32_t right =
        chains.apply(elements, count, &ranges, chained_.get(), static_cast<std::uint32_t>(fitting), scratch_.get());
    done += right;
    if (right < fitting) return done;
  }
  return deltas.size();
}

}  // namespace wdelta
