// SPDX-License-Identifier: Apache-2.0
#include "delta/tensor_candidates.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace wdelta {

namespace {

constexpr std::size_t k_most_of_each = 16;

}  // namespace

// Up to so many at a time, none of them twice.
class TensorCandidates::Chosen {
 public:
  void begin_kind() { left_ = k_most_of_each; }
  bool has_enough() const { return left_ == 0; }
  void add(std::size_t number) {
    --left_;
    if (std::ranges::find(numbers_, number) == numbers_.end()) numbers_.push_back(number);
  }
  std::vector<std::size_t> take() { return std::move(numbers_); }

 private:
  std::size_t left_ = 0;
  std::vector<std::size_t> numbers_;
};

template <typename IsEnd, typename IsOfUse>
std::ptrdiff_t TensorCandidates::Skips::next(std::ptrdiff_t at, std::ptrdiff_t step, IsEnd is_end, IsOfUse is_of_use) {
  std::vector<std::ptrdiff_t> passed;
  while (!is_end(at) && !is_of_use(at)) {
    passed.push_back(at);
    const auto known = behind_.find(at);
    at = known == behind_.end() ? at + step : known->second;
  }
  for (const std::ptrdiff_t place : passed) behind_[place] = at;
  return at;
}

TensorCandidates::TensorCandidates(const OrderedBase& base, const AlikeTensors& alike)
    : base_(&base), alike_(&alike), of_first_file_(alike.of_file(base.first())) {}

void TensorCandidates::set_aside(const std::string& name) {
  if (const auto* numbers = alike_->named(name)) taken_.insert(numbers->begin(), numbers->end());
}

void TensorCandidates::take(std::size_t number, const std::string& name) {
  taken_.insert(number);
  const std::string& before = (*alike_)[number].tensor->name;
  for (const NumberShift& shift : shifts_of(name, last_shift_)) {
    if (shifted(name, shift) == before) last_shift_ = shift;
  }
}

std::vector<std::size_t> TensorCandidates::worth_a_look(const std::string& name) {
  Chosen chosen;
  for (const NumberShift& shift : shifts_of(name, last_shift_)) {
    const auto before = shifted(name, shift);
    const auto* numbers = before ? alike_->named(*before) : nullptr;
    if (numbers == nullptr) continue;
    chosen.begin_kind();
    chosen.add(*std::ranges::min_element(*numbers, [&](std::size_t a, std::size_t b) {
      return base_->comes_before((*alike_)[a].file, (*alike_)[b].file);
    }));
  }
  choose_alike(name, Of::free, chosen);
  const std::vector<std::string> numbers = first_numbers_of(name);
  for (auto longest = numbers.rbegin(); longest != numbers.rend(); ++longest) {
    if (const TensorNumbers* same = alike_->with_numbers(*longest)) choose_first_free(*same, chosen);
  }
  choose_first_free(alike_->all(), chosen);
  choose_alike(name, Of::all, chosen);
  return chosen.take();
}

// Calls take(number) for those of `numbers` that are free, from `from` on, until that returns false.
template <typename Take>
void TensorCandidates::for_each_free(const std::vector<std::size_t>& numbers, std::size_t from, Take take) {
  Skips& skips = skips_[&numbers];
  const auto end = std::ssize(numbers);
  auto at = std::ranges::lower_bound(numbers, from) - numbers.begin();
  for (;; ++at) {
    at = skips.next(
        at, 1, [&](std::ptrdiff_t place) { return place >= end; },
        [&](std::ptrdiff_t place) { return is_free(numbers[static_cast<std::size_t>(place)]); });
    if (at >= end || !take(numbers[static_cast<std::size_t>(at)])) return;
  }
}

// In the order of the base: of its first file, then of the folder, then others. What comes earlier than these and is
// still free was chosen, so that no more of it than that is passed by.
void TensorCandidates::choose_first_free(const TensorNumbers& from, Chosen& chosen) {
  chosen.begin_kind();
  const auto [begin, end] = of_first_file_;
  for_each_free(from.all, begin, [&, end = end](std::size_t number) {
    if (number < end) chosen.add(number);
    return number < end && !chosen.has_enough();
  });
  const auto is_of_first_file = [&, begin = begin, end = end](std::size_t number) {
    return number >= begin && number < end;
  };
  const auto folder = base_->folder() ? from.by_folder.find(*base_->folder()) : from.by_folder.end();
  const bool has_folder = folder != from.by_folder.end();
  if (has_folder && !chosen.has_enough()) {
    for_each_free(folder->second, 0, [&](std::size_t number) {
      if (!is_of_first_file(number)) chosen.add(number);
      return !chosen.has_enough();
    });
  }
  if (chosen.has_enough()) return;
  for_each_free(from.all, 0, [&](std::size_t number) {
    const bool is_in_folder = has_folder && base_->index().folder_of((*alike_)[number].file) == *base_->folder();
    if (!is_of_first_file(number) && !is_in_folder) chosen.add(number);
    return !chosen.has_enough();
  });
}

std::vector<std::size_t> TensorCandidates::in_order(const AlikeTensors::SameName& same, Of of) const {
  std::vector<std::size_t> numbers;
  std::ranges::copy_if(*same.numbers, std::back_inserter(numbers),
                       [&](std::size_t number) { return of == Of::all || is_free(number); });
  std::ranges::sort(
      numbers, [&](std::size_t a, std::size_t b) { return base_->comes_before((*alike_)[a].file, (*alike_)[b].file); });
  return numbers;
}

// In this order the names that end most alike lie next to `wanted` on either side.
void TensorCandidates::choose_alike(const std::string& wanted, Of of, Chosen& chosen) {
  chosen.begin_kind();
  const auto names = alike_->by_ending();
  const auto name_at = [&](std::ptrdiff_t at) { return names[static_cast<std::size_t>(at)]; };
  const auto is_end = [&](std::ptrdiff_t at) { return at < 0 || at >= std::ssize(names); };
  const auto is_of_use = [&](std::ptrdiff_t at) {
    return of == Of::all || std::ranges::any_of(*name_at(at).numbers, [&](std::size_t n) { return is_free(n); });
  };
  struct Side {
    Skips& skips;
    std::ptrdiff_t step;
    std::ptrdiff_t at = 0;
    std::vector<std::size_t> left = {};  // of the tensors of the name there, the next one last
    std::size_t likeness = 0;
  };
  const auto move_to = [&](Side& side, std::ptrdiff_t at) {
    side.at = side.skips.next(at, side.step, is_end, is_of_use);
    side.left.clear();
    if (is_end(side.at)) return;
    side.left = in_order(name_at(side.at), of);
    if (side.step > 0) std::ranges::reverse(side.left);
    side.likeness = common_end_of(*name_at(side.at).name, wanted);
  };
  Skips none_above;
  Skips none_below;
  Side above{of == Of::free ? skips_above_ : none_above, 1};
  Side below{of == Of::free ? skips_below_ : none_below, -1};
  const auto first = static_cast<std::ptrdiff_t>(alike_->first_not_before(wanted));
  move_to(above, first);
  move_to(below, first - 1);
  while (!chosen.has_enough() && !(above.left.empty() && below.left.empty())) {
    const bool take_below = !below.left.empty() && (above.left.empty() || below.likeness > above.likeness);
    Side& side = take_below ? below : above;
    chosen.add(side.left.back());
    side.left.pop_back();
    if (side.left.empty()) move_to(side, side.at + side.step);
  }
}

}  // namespace wdelta
