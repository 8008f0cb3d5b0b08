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

Sample sample_of(const ByteReader& file, const Tensor& tensor) {
  const std::uint64_t width = tensor.dtype->width_bytes;
  const std::uint64_t count = tensor.element_count();
  Sample sample;
  for (std::uint64_t i = 0; i < k_sample_stretches; ++i) {
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
    all_.push_back(found);
    by_ending_.insert({reversed(found.tensor->name), number});
    if (!is_free) return;
    free_by_ending_.insert({reversed(found.tensor->name), number});
    free_.insert(number);
  }

  void take(std::size_t number) {
    free_by_ending_.erase({reversed(all_[number].tensor->name), number});
    free_.erase(number);
  }

  const Found& operator[](std::size_t number) const { return all_[number]; }

  // Some of each: free ones whose names end like `name`; the first free ones, since what is renamed from end to end
  // mostly stays in order; any whose names end like it.
  std::vector<std::size_t> worth_a_look(const std::string& name) const {
    std::vector<std::size_t> chosen;
    choose_alike(free_by_ending_, reversed(name), chosen);
    auto first = free_.begin();
    for (std::size_t i = 0; i < k_most_of_each && first != free_.end(); ++i) choose(*first++, chosen);
    choose_alike(by_ending_, reversed(name), chosen);
    return chosen;
  }

 private:
  using ByEnding = std::set<std::pair<std::string, std::size_t>>;

  static std::string reversed(const std::string& name) { return {name.rbegin(), name.rend()}; }

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
  ByEnding by_ending_;
  ByEnding free_by_ending_;
  std::set<std::size_t> free_;
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
    candidates->second.take(*best);
    return candidates->second[*best];
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

}  // namespace

TensorSources find_sources(const std::vector<BaseFile>& base, const SafetensorsHeader& next, const ByteReader& bytes) {
  TensorSources sources;
  if (!base.empty()) sources.files.push_back(&base.front());
  ContentSearch search(base, next, bytes);
  for (const Tensor& tensor : next.tensors()) {
    Found found = find_by_name(base, tensor);
    if (found.tensor == nullptr) found = search.find(tensor);
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
