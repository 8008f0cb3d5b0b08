// SPDX-License-Identifier: Apache-2.0
#include "engine/class_chain.hpp"

#include <algorithm>
#include <bitset>
#include <new>

namespace wdelta {
namespace {

constexpr std::align_val_t k_map_alignment{64};

}  // namespace

void ClassChain::FreeMap::operator()(std::byte* map) const { ::operator delete[](map, k_map_alignment); }

void ClassChain::begin(std::span<const ClassBounds* const> bounds) {
  deltas_.assign(bounds.begin(), bounds.end());
  next_ = first_fitting_ = end_fitting_ = 0;
  is_mapped_ = false;
}

// Takes as many of the deltas to come as have few enough bounds and classes together.
void ClassChain::fit_next() {
  first_fitting_ = end_fitting_ = next_;
  is_mapped_ = false;
  std::bitset<256> is_bound;
  while (end_fitting_ < deltas_.size()) {
    std::bitset<256> with_next = is_bound;
    for (const std::uint8_t bound : *deltas_[end_fitting_]) with_next.set(bound);
    if (with_next.count() >= k_most_classes) break;
    is_bound = with_next;
    ++end_fitting_;
  }
  bounds_.clear();
  for (std::size_t context = 0; context < is_bound.size(); ++context) {
    if (!is_bound[context]) continue;
    bounds_.push_back(static_cast<std::uint8_t>(context));
    first_class_[context] = static_cast<std::uint8_t>(bounds_.size());
  }
  first_class_[256] = static_cast<std::uint8_t>(bounds_.size() + 1);

  range_count_ = 0;
  for (auto& by_end : range_of_) by_end.fill(0);
  for (std::size_t i = first_fitting_; i < end_fitting_; ++i) {
    if (!add_ranges(*deltas_[i])) end_fitting_ = i;
  }
}

bool ClassChain::add_ranges(const ClassBounds& bounds) {
  for (std::size_t k = 0; k <= bounds.size(); ++k) {
    const ClassRange range = {k == 0 ? std::uint8_t{0} : first_class_[bounds[k - 1]],
                              first_class_[k == bounds.size() ? 256 : bounds[k]]};
    std::uint8_t& number = range_of_[range.first][range.end];
    if (number != 0) continue;
    if (range_count_ == ranges_.size()) return false;
    ranges_[range_count_++] = range;
    number = static_cast<std::uint8_t>(range_count_);
  }
  return true;
}

void ClassChain::map(const ChainKernels& chain, const void* elements, std::uint32_t count) {
  if (map_bytes_ < chain.map_bytes) {
    // Left unset: pages that no range needs are never touched.
    map_.reset(static_cast<std::byte*>(::operator new[](chain.map_bytes, k_map_alignment)));
    map_bytes_ = chain.map_bytes;
  }
  const ClassRanges ranges = {bounds_.data(), static_cast<std::uint32_t>(bounds_.size()), ranges_.data(), range_count_};
  chain.map_classes(elements, count, &ranges, map_.get());
  is_mapped_ = true;
}

bool ClassChain::apply(const ClassedKernels& kernels, const ClassedChanges& changes, void* elements,
                       std::uint32_t count) {
  const std::span bounds(changes.bounds, changes.bound_count);
  const bool is_next = next_ < deltas_.size() && std::ranges::equal(*deltas_[next_], bounds);
  if (is_next && next_ == end_fitting_) fit_next();
  next_ += is_next ? 1 : 0;
  // A map for one delta alone takes longer than it saves.
  if (!is_next || kernels.chain.map_bytes == 0 || end_fitting_ - first_fitting_ < 2) {
    forget_elements();
    return kernels.apply(elements, count, &changes);
  }
  if (!is_mapped_) map(kernels.chain, elements, count);
  std::array<std::uint8_t, k_most_classes> range_of_class{};
  for (std::size_t k = 0; k <= bounds.size(); ++k) {
    const std::uint8_t first = k == 0 ? 0 : first_class_[bounds[k - 1]];
    const std::uint8_t end = first_class_[k == bounds.size() ? 256 : bounds[k]];
    range_of_class[k] = static_cast<std::uint8_t>(range_of_[first][end] - 1);
  }
  return kernels.chain.apply(elements, count, &changes, range_of_class.data(), map_.get());
}

}  // namespace wdelta
