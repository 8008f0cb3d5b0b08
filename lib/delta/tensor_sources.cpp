// SPDX-License-Identifier: Apache-2.0
#include "delta/tensor_sources.hpp"

#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

namespace {

// The highest bytes (sign and exponent) of elements spread over a tensor. An optimizer's step leaves nearly all of them
// alone, even in fp32 where every element changes; two unrelated tensors have less than half of them in common.
using Sample = std::vector<std::uint8_t>;
constexpr std::uint64_t k_stretches = 8;
constexpr std::uint64_t k_stretch_elements = 128;
constexpr double k_likely = 0.75;
constexpr double k_certain = 0.95;
/// What is smaller costs less to store afresh than to look for.
constexpr std::uint64_t k_smallest_searched_bytes = 1024;
constexpr std::size_t k_most_candidates = 32;

Sample sample_of(const ByteReader& file, const Tensor& tensor) {
  const std::uint64_t width = tensor.dtype->width_bytes;
  const std::uint64_t count = tensor.element_count();
  Sample sample;
  for (std::uint64_t i = 0; i < k_stretches; ++i) {
    const std::uint64_t begin = count / k_stretches * i;
    std::vector<std::uint8_t> bytes(std::min(k_stretch_elements, count / k_stretches) * width);
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

// Finds tensors by what is in them.
class ContentSearch {
 public:
  ContentSearch(const std::vector<BaseFile>& base, const SafetensorsHeader& next, const ByteReader& bytes)
      : base_(&base), next_(&next), bytes_(&bytes) {}

  Found find(const Tensor& wanted) {
    if (wanted.size_bytes() < k_smallest_searched_bytes) return {};
    const Sample sample = sample_of(*bytes_, wanted);
    Found best;
    double best_agreement = k_likely;
    for (const Found& candidate : candidates_for(wanted)) {
      auto known = samples_.find(candidate.tensor);
      if (known == samples_.end())
        known = samples_.emplace(candidate.tensor, sample_of(*candidate.file->file, *candidate.tensor)).first;
      const double found = agreement(sample, known->second);
      if (found < best_agreement) continue;
      best = candidate;
      best_agreement = found;
      if (found >= k_certain) break;
    }
    return best;
  }

 private:
  // Those that next has not under their own name come first, then those whose names end most alike.
  std::vector<Found> candidates_for(const Tensor& wanted) const {
    std::vector<std::pair<std::pair<bool, std::size_t>, Found>> ranked;
    for (const BaseFile& file : *base_) {
      for (const Tensor& tensor : file.file->header().tensors()) {
        if (!tensor.has_elements_like(wanted)) continue;
        const bool kept_its_name = next_->find(tensor.name) != nullptr;
        ranked.push_back(
            {{kept_its_name, SIZE_MAX - likeness_of_places(tensor.name, wanted.name).common_end}, {&file, &tensor}});
      }
    }
    std::ranges::stable_sort(ranked, {}, [](const auto& each) { return each.first; });
    ranked.resize(std::min(ranked.size(), k_most_candidates));
    std::vector<Found> candidates;
    for (const auto& [rank, found] : ranked) candidates.push_back(found);
    return candidates;
  }

  const std::vector<BaseFile>* base_;
  const SafetensorsHeader* next_;
  const ByteReader* bytes_;
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
