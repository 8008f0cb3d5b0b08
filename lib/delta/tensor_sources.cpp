// SPDX-License-Identifier: Apache-2.0
#include "delta/tensor_sources.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace wdelta {

namespace {

// The highest bytes (sign and exponent) of elements spread over a tensor. An optimizer's step leaves nearly all of them
// alone, even in fp32 where every element changes; two unrelated tensors have less than half of them in common.
using Sample = std::vector<std::uint8_t>;
constexpr std::uint64_t k_sample_stretches = 8;
constexpr std::uint64_t k_sample_elements = 128;
constexpr double k_likely = 0.75;
constexpr double k_certain = 0.95;
/// What is smaller costs less to store afresh than to look for.
constexpr std::uint64_t k_smallest_searched_bytes = 1024;
constexpr std::size_t k_most_of_each = 16;
/// How many tensors of a file are looked at to see whether names still stand for what they did.
constexpr std::size_t k_names_looked_at = 16;
/// How far numbers in names are looked for: so many layers may be inserted or dropped.
constexpr std::int64_t k_largest_shift = 8;

Sample sample_of(const ByteReader& file, const Tensor& tensor, std::uint64_t stretches = k_sample_stretches) {
  const std::uint64_t width = tensor.dtype->width_bytes;
  const std::uint64_t count = tensor.element_count();
  Sample sample;
  for (std::uint64_t i = 0; i < stretches; ++i) {
    const std::uint64_t begin = count / k_sample_stretches * i;
    std::vector<std::uint8_t> bytes(std::min(k_sample_elements, count / k_sample_stretches) * width);
    file.read_at(tensor.begin + begin * width, bytes);
    for (std::size_t at = width - 1; at < bytes.size(); at += width) sample.push_back(bytes[at]);
  }
  return sample;
}

double agreement(const Sample& a, const Sample& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return a.empty() ? 0 : static_cast<double>(equal) / static_cast<double>(a.size());
}

struct Found {
  const BaseFile* file = nullptr;
  const Tensor* tensor = nullptr;
};

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// Where the numbers in a name are, as (begin, end).
std::vector<std::pair<std::size_t, std::size_t>> numbers_in(const std::string& name) {
  std::vector<std::pair<std::size_t, std::size_t>> numbers;
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    if (!is_digit(name[begin])) continue;
    std::size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    numbers.emplace_back(begin, end);
    begin = end;
  }
  return numbers;
}

// The first numbers of a name, one, two and so on, as of a layer and of an expert in it, whatever stands around them.
std::vector<std::string> first_numbers_of(const std::string& name) {
  constexpr std::size_t k_most_numbers = 3;
  std::vector<std::string> all;
  for (const auto& [begin, end] : numbers_in(name)) {
    if (all.size() == k_most_numbers) break;
    all.push_back((all.empty() ? "" : all.back()) + name.substr(begin, end - begin) + ",");
  }
  return all;
}

// One of the numbers in a name, and how much larger it was before.
struct NumberShift {
  std::size_t number = 0;
  std::int64_t by = 0;
};

// The name with one number changed; nothing where it has no such number, or that would be below 0.
std::optional<std::string> shifted(const std::string& name, const NumberShift& shift) {
  constexpr std::size_t k_most_digits = 9;
  const auto numbers = numbers_in(name);
  if (shift.number >= numbers.size()) return std::nullopt;
  const auto [begin, end] = numbers[shift.number];
  if (end - begin > k_most_digits) return std::nullopt;
  const std::int64_t value = std::stoll(name.substr(begin, end - begin)) + shift.by;
  if (value < 0) return std::nullopt;
  return name.substr(0, begin) + std::to_string(value) + name.substr(end);
}

Found find_by_name(const std::vector<BaseFile>& base, const Tensor& wanted) {
  for (const BaseFile& file : base) {
    const Tensor* found = file.file->header().find(wanted.name);
    if (found != nullptr && found->has_elements_like(wanted)) return {&file, found};
  }
  return {};
}

// The tensors of the base that have one dtype and number of elements. Free are those that next has not under their own
// name and that no tensor of next has been found to come from.
class Candidates {
 public:
  void add(const Found& found, bool is_free) {
    const std::size_t number = all_.size();
    const std::string& name = found.tensor->name;
    all_.push_back(found);
    by_name_.emplace(name, number);
    by_ending_.insert({reversed(name), number});
    if (!is_free) return;
    free_by_ending_.insert({reversed(name), number});
    for (const std::string& numbers : first_numbers_of(name)) free_by_numbers_[numbers].insert(number);
    free_.insert(number);
  }

  // What `found` is for `name`, besides its source: where a number of the name was shifted, so may those of others be.
  void take(std::size_t number, const std::string& name) {
    const std::string& before = all_[number].tensor->name;
    free_by_ending_.erase({reversed(before), number});
    for (const std::string& numbers : first_numbers_of(before)) free_by_numbers_[numbers].erase(number);
    free_.erase(number);
    for (const NumberShift& shift : shifts_of(name)) {
      if (shifted(name, shift) == before) last_shift_ = shift;
    }
  }

  const Found& operator[](std::size_t number) const { return all_[number]; }

  // Some of each: those that the name was before layers were inserted or dropped; free ones whose names end like
  // `name`; free ones with the same first numbers in their names, as of a layer; the first free ones, since what is
  // renamed from end to end mostly stays in order; any whose names end like it.
  std::vector<std::size_t> worth_a_look(const std::string& name) const {
    std::vector<std::size_t> chosen;
    for (const NumberShift& shift : shifts_of(name)) {
      const auto before = shifted(name, shift);
      const auto found = before ? by_name_.find(*before) : by_name_.end();
      if (found != by_name_.end()) choose(found->second, chosen);
    }
    choose_alike(free_by_ending_, reversed(name), chosen);
    const std::vector<std::string> numbers = first_numbers_of(name);
    for (auto longest = numbers.rbegin(); longest != numbers.rend(); ++longest) {
      if (const auto same = free_by_numbers_.find(*longest); same != free_by_numbers_.end())
        choose_first(same->second, chosen);
    }
    choose_first(free_, chosen);
    choose_alike(by_ending_, reversed(name), chosen);
    return chosen;
  }

 private:
  using ByEnding = std::set<std::pair<std::string, std::size_t>>;

  // The last one that was right, then the smallest.
  std::vector<NumberShift> shifts_of(const std::string& name) const {
    std::vector<NumberShift> shifts;
    if (last_shift_) shifts.push_back(*last_shift_);
    const std::size_t count = std::min<std::size_t>(numbers_in(name).size(), 4);
    for (std::int64_t by = 1; by <= k_largest_shift; ++by) {
      for (std::size_t number = 0; number < count; ++number) {
        shifts.push_back({number, by});
        shifts.push_back({number, -by});
      }
    }
    return shifts;
  }

  static std::string reversed(const std::string& name) { return {name.rbegin(), name.rend()}; }

  static void choose_first(const std::set<std::size_t>& from, std::vector<std::size_t>& chosen) {
    auto number = from.begin();
    for (std::size_t i = 0; i < k_most_of_each && number != from.end(); ++i) choose(*number++, chosen);
  }

  static void choose(std::size_t number, std::vector<std::size_t>& chosen) {
    if (std::ranges::find(chosen, number) == chosen.end()) chosen.push_back(number);
  }

  // In this order the names that end most alike lie next to `wanted` on either side.
  static void choose_alike(const ByEnding& from, const std::string& wanted, std::vector<std::size_t>& chosen) {
    const auto likeness = [&](const std::string& name) {
      return std::ranges::mismatch(name, wanted).in1 - name.begin();
    };
    auto above = from.lower_bound({wanted, 0});
    auto below = above;
    for (std::size_t i = 0; i < k_most_of_each && (below != from.begin() || above != from.end()); ++i) {
      const bool take_below =
          below != from.begin() && (above == from.end() || likeness(std::prev(below)->first) > likeness(above->first));
      choose(take_below ? (--below)->second : (above++)->second, chosen);
    }
  }

  std::vector<Found> all_;
  std::map<std::string, std::size_t> by_name_;
  ByEnding by_ending_;
  ByEnding free_by_ending_;
  std::map<std::string, std::set<std::size_t>> free_by_numbers_;
  std::set<std::size_t> free_;
  std::optional<NumberShift> last_shift_;
};

// Finds tensors by what is in them.
class ContentSearch {
 public:
  ContentSearch(const std::vector<BaseFile>& base, const SafetensorsHeader& next, const ByteReader& bytes)
      : base_(&base), next_(&next), bytes_(&bytes) {}

  Found find(const Tensor& wanted) {
    if (wanted.size_bytes() < k_smallest_searched_bytes) return {};
    if (!gathered_) gather();
    const auto candidates = candidates_.find({wanted.dtype, wanted.size_bytes()});
    if (candidates == candidates_.end()) return {};
    const Sample sample = sample_of(*bytes_, wanted);
    std::optional<std::size_t> best;
    double best_agreement = k_likely;
    for (const std::size_t number : candidates->second.worth_a_look(wanted.name)) {
      const double found = agreement(sample, sample_at(candidates->second[number]));
      if (found < best_agreement) continue;
      best = number;
      best_agreement = found;
      if (found >= k_certain) break;
    }
    if (!best) return {};
    candidates->second.take(*best, wanted.name);
    return candidates->second[*best];
  }

  /// Whether a tensor found by name has about the same content; by one stretch of it or by several.
  bool agrees(const Tensor& wanted, const Found& found, std::uint64_t stretches) const {
    if (wanted.size_bytes() < k_smallest_searched_bytes) return true;
    return agreement(sample_of(*bytes_, wanted, stretches), sample_of(*found.file->file, *found.tensor, stretches)) >=
           k_likely;
  }

 private:
  // Most files need no search at all.
  void gather() {
    gathered_ = true;
    for (const BaseFile& file : *base_) {
      for (const Tensor& tensor : file.file->header().tensors()) {
        if (tensor.size_bytes() < k_smallest_searched_bytes) continue;
        candidates_[{tensor.dtype, tensor.size_bytes()}].add({&file, &tensor}, next_->find(tensor.name) == nullptr);
      }
    }
  }

  const Sample& sample_at(const Found& found) {
    auto known = samples_.find(found.tensor);
    if (known == samples_.end())
      known = samples_.emplace(found.tensor, sample_of(*found.file->file, *found.tensor)).first;
    return known->second;
  }

  const std::vector<BaseFile>* base_;
  const SafetensorsHeader* next_;
  const ByteReader* bytes_;
  bool gathered_ = false;
  std::map<std::pair<const Dtype*, std::uint64_t>, Candidates> candidates_;
  std::map<const Tensor*, Sample> samples_;
};

// Whether names may stand for something else than before, as those of layers behind one that was dropped: the file has
// other tensors than its counterpart, and of some that lie all over it one has nothing of its namesake.
bool names_have_moved(const std::vector<BaseFile>& base, const SafetensorsHeader& next,
                      const std::vector<Found>& by_name, const ContentSearch& search) {
  if (base.empty()) return false;
  const auto is_in_front = [&](const Found& found) { return found.file == &base.front(); };
  if (base.front().file->header().tensors().size() == by_name.size() && std::ranges::all_of(by_name, is_in_front))
    return false;
  const std::size_t stride = std::max<std::size_t>(1, by_name.size() / k_names_looked_at);
  for (std::size_t i = 0; i < by_name.size(); i += stride) {
    if (by_name[i].tensor != nullptr && !search.agrees(next.tensors()[i], by_name[i], 1)) return true;
  }
  return false;
}

}  // namespace

TensorSources find_sources(const std::vector<BaseFile>& base, const SafetensorsHeader& next, const ByteReader& bytes,
                           const Execution& execution) {
  TensorSources sources;
  if (!base.empty()) sources.files.push_back(&base.front());
  ContentSearch search(base, next, bytes);
  std::vector<Found> by_name;
  for (const Tensor& tensor : next.tensors()) by_name.push_back(find_by_name(base, tensor));
  const bool are_doubtful = names_have_moved(base, next, by_name, search);
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    execution.check_stop();
    const Tensor& tensor = next.tensors()[i];
    Found found = by_name[i];
    const bool is_doubtful =
        found.tensor != nullptr && are_doubtful && !search.agrees(tensor, found, k_sample_stretches);
    if (found.tensor == nullptr || is_doubtful) {
      const Found by_content = search.find(tensor);
      if (by_content.tensor != nullptr) found = by_content;
    }
    if (found.tensor == nullptr) {
      if (!base.empty()) sources.exceptions[tensor.name] = std::nullopt;
      sources.places.emplace_back();
      continue;
    }
    auto used = std::ranges::find(sources.files, found.file);
    if (used == sources.files.end()) used = sources.files.insert(used, found.file);
    if (used != sources.files.begin() || found.tensor->name != tensor.name) {
      sources.exceptions[tensor.name] =
          Source{static_cast<std::size_t>(used - sources.files.begin()), found.tensor->name};
    }
    sources.places.push_back({found.file->file.get(), found.tensor->begin});
  }
  return sources;
}

}  // namespace wdelta
