// SPDX-License-Identifier: Apache-2.0
#include "c/tied_tensors.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <numeric>
#include <tuple>

namespace wdelta {

namespace {

// Addresses as numbers, for those of different objects are compared: those of devices are others than the host's.
struct Reach {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::size_t tensor;
};

std::vector<Reach> reaches_of(std::span<const GivenTensor> tensors) {
  std::vector<Reach> reaches;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GivenTensor& tensor = tensors[i];
    if (tensor.size_bytes == 0) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(tensor.elements);
    if (tensor.strided) {
      reaches.push_back({first + static_cast<std::uintptr_t>(tensor.strided->lowest_bytes()),
                         first + static_cast<std::uintptr_t>(tensor.strided->highest_bytes()), i});
    } else {
      reaches.push_back({first, first + tensor.size_bytes, i});
    }
  }
  std::ranges::sort(reaches, {}, [](const Reach& reach) { return std::tuple(reach.begin, reach.end, reach.tensor); });
  return reaches;
}

// Of memory without gaps its bytes count, whatever they are taken for.
bool are_read_alike(const GivenTensor& a, const GivenTensor& b) {
  return a.elements == b.elements && a.size_bytes == b.size_bytes && a.strided == b.strided;
}

template <typename Visit>
void for_each_run(const GivenTensor& tensor, Visit visit) {
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.elements);
  if (!tensor.strided) return visit(first, tensor.size_bytes);
  tensor.strided->for_each_dense(0, tensor.size_bytes, [&](std::int64_t place, std::uint64_t size_bytes) {
    visit(first + static_cast<std::uintptr_t>(place), size_bytes);
  });
}

/// Which bytes of a stretch of memory belong to a tensor.
class Taken {
 public:
  Taken(std::uintptr_t begin, std::uintptr_t end) : begin_(begin), words_((end - begin + 63) / 64) {}

  /// Whether one of them was taken already.
  bool take(std::uintptr_t place, std::uint64_t size_bytes) {
    std::uint64_t before = 0;
    const std::uint64_t end = place - begin_ + size_bytes;
    for (std::uint64_t at = place - begin_; at < end;) {
      const std::uint64_t count = std::min(64 - at % 64, end - at);
      const std::uint64_t bits = (~std::uint64_t{0} >> (64 - count)) << at % 64;
      before |= words_[at / 64] & bits;
      words_[at / 64] |= bits;
      at += count;
    }
    return before != 0;
  }

 private:
  std::uintptr_t begin_;
  std::vector<std::uint64_t> words_;
};

Error overlap(const GivenTensor& one, const GivenTensor& other) {
  return {Fault::usage, other.shape.name, fmt::format("overlaps {:?} in memory", one.shape.name),
          "fill tensors that have memory of their own"};
}

// Of tensors whose reaches overlap: those with gaps may lie in each other's.
void check_apart(std::span<const GivenTensor> tensors, std::span<const Reach> reaches) {
  const std::uintptr_t end = std::ranges::max_element(reaches, {}, &Reach::end)->end;
  Taken taken(reaches.front().begin, end);
  for (auto reach = reaches.begin(); reach != reaches.end(); ++reach) {
    bool is_free = true;
    for_each_run(tensors[reach->tensor],
                 [&](std::uintptr_t place, std::uint64_t size_bytes) { is_free &= !taken.take(place, size_bytes); });
    if (is_free) continue;
    // Which one it is, is asked only now.
    for (auto other = reaches.begin(); other != reach; ++other) {
      Taken its(reaches.front().begin, end);
      bool is_apart = true;
      for (const Reach* each : {&*other, &*reach}) {
        for_each_run(tensors[each->tensor],
                     [&](std::uintptr_t place, std::uint64_t size_bytes) { is_apart &= !its.take(place, size_bytes); });
      }
      if (!is_apart) throw overlap(tensors[other->tensor], tensors[reach->tensor]);
    }
  }
}

}  // namespace

std::vector<std::size_t> tied_to(std::span<const GivenTensor> tensors) {
  std::vector<std::size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  std::vector<Reach> apart;  // without those that are tied to one before them
  for (const Reach& reach : reaches_of(tensors)) {
    bool is_tied = false;
    for (auto other = apart.rbegin(); other != apart.rend() && !is_tied; ++other) {
      if (other->begin != reach.begin || other->end != reach.end) break;
      is_tied = are_read_alike(tensors[other->tensor], tensors[reach.tensor]);
      if (is_tied) first[reach.tensor] = other->tensor;
    }
    if (!is_tied) apart.push_back(reach);
  }
  for (auto begin = apart.begin(); begin != apart.end();) {
    std::uintptr_t end = begin->end;
    auto next = begin + 1;
    for (; next != apart.end() && next->begin < end; ++next) {
      const GivenTensor& one = tensors[(next - 1)->tensor];
      const GivenTensor& other = tensors[next->tensor];
      if (!one.strided && !other.strided && next->begin < (next - 1)->end) throw overlap(one, other);
      end = std::max(end, next->end);
    }
    if (next - begin > 1) check_apart(tensors, {begin, next});
    begin = next;
  }
  return first;
}

void TiedTarget::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = offset + bytes.size();
  for (std::uint64_t at = offset; at < end;) {
    const auto rest = bytes.subspan(at - offset);
    const auto next = written_.upper_bound(at);
    const auto before = next == written_.begin() ? written_.end() : std::prev(next);
    if (before != written_.end() && before->second > at) {
      const auto same = rest.first(std::min(before->second, end) - at);
      if (!holds(at, same)) differs_ = true;
      at += same.size();
      continue;
    }
    const auto fresh = rest.first((next == written_.end() ? end : std::min(next->first, end)) - at);
    target_->write_at(at, fresh);
    const std::uint64_t written_end = at + fresh.size();
    if (before != written_.end() && before->second == at) {
      before->second = written_end;
    } else {
      written_[at] = written_end;
    }
    at = written_end;
  }
}

bool TiedTarget::holds(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  std::vector<std::uint8_t> there(bytes.size());
  reader_of(tensor_)->read_at(offset, there);
  return std::ranges::equal(there, bytes);
}

}  // namespace wdelta
