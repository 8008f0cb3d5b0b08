// SPDX-License-Identifier: Apache-2.0
#include "delta/tensor_sources.hpp"

#include "delta/tensor_candidates.hpp"

#include <algorithm>
#include <optional>

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
/// How many tensors of a file are looked at to see whether names still stand for what they did.
constexpr std::size_t k_names_looked_at = 16;

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

// The first in the order of the base that has the name and as many elements of the same dtype.
std::optional<BaseTensor> find_by_name(const OrderedBase& base, const Tensor& wanted) {
  if (base.empty()) return std::nullopt;
  const Tensor* in_front = base.front().file->header().find(wanted.name);
  if (in_front != nullptr && in_front->has_elements_like(wanted)) return BaseTensor{base.first(), in_front};
  std::optional<BaseTensor> first;
  for (const BaseTensor& found : base.index().named(wanted.name)) {
    if (!found.tensor->has_elements_like(wanted)) continue;
    if (!first || base.comes_before(found.file, first->file)) first = found;
  }
  return first;
}

// Finds tensors by what is in them.
class ContentSearch {
 public:
  ContentSearch(const OrderedBase& base, const SafetensorsHeader& next, const ByteReader& bytes)
      : base_(&base), next_(&next), bytes_(&bytes) {}

  std::optional<BaseTensor> find(const Tensor& wanted) {
    if (base_->empty() || wanted.size_bytes() < k_smallest_searched_bytes) return std::nullopt;
    const AlikeTensors* const alike = base_->index().alike(wanted.dtype, wanted.size_bytes());
    if (alike == nullptr) return std::nullopt;
    TensorCandidates& candidates = candidates_among(*alike);
    const Sample sample = sample_of(*bytes_, wanted);
    std::optional<std::size_t> best;
    double best_agreement = k_likely;
    for (const std::size_t number : candidates.worth_a_look(wanted.name)) {
      const double found = agreement(sample, sample_at((*alike)[number]));
      if (found < best_agreement) continue;
      best = number;
      best_agreement = found;
      if (found >= k_certain) break;
    }
    if (!best) return std::nullopt;
    candidates.take(*best, wanted.name);
    return (*alike)[*best];
  }

  /// Whether a tensor found by name has about the same content; by one stretch of it or by several.
  bool agrees(const Tensor& wanted, const BaseTensor& found, std::uint64_t stretches) const {
    if (wanted.size_bytes() < k_smallest_searched_bytes) return true;
    return agreement(sample_of(*bytes_, wanted, stretches), sample_of(file_of(found), *found.tensor, stretches)) >=
           k_likely;
  }

 private:
  const RebuiltFile& file_of(const BaseTensor& found) const { return *base_->index().files()[found.file].file; }

  TensorCandidates& candidates_among(const AlikeTensors& alike) {
    const auto known = candidates_.find(&alike);
    if (known != candidates_.end()) return known->second;
    if (own_names_.empty()) gather_own_names();
    TensorCandidates& candidates = candidates_.try_emplace(&alike, *base_, alike).first->second;
    for (const std::string* name : own_names_[&alike]) candidates.set_aside(*name);
    return candidates;
  }

  // Most files need no search at all.
  void gather_own_names() {
    for (const Tensor& tensor : next_->tensors()) {
      for (const BaseTensor& same : base_->index().named(tensor.name)) {
        std::vector<const std::string*>& names =
            own_names_[base_->index().alike(same.tensor->dtype, same.tensor->size_bytes())];
        if (names.empty() || names.back() != &tensor.name) names.push_back(&tensor.name);
      }
    }
    own_names_.try_emplace(nullptr);  // it is gathered, even where there are none
  }

  const Sample& sample_at(const BaseTensor& found) {
    auto known = samples_.find(found.tensor);
    if (known == samples_.end()) known = samples_.emplace(found.tensor, sample_of(file_of(found), *found.tensor)).first;
    return known->second;
  }

  const OrderedBase* base_;
  const SafetensorsHeader* next_;
  const ByteReader* bytes_;
  std::map<const AlikeTensors*, TensorCandidates> candidates_;
  std::map<const AlikeTensors*, std::vector<const std::string*>> own_names_;  // that next has as well
  std::map<const Tensor*, Sample> samples_;
};

// Whether names may stand for something else than before, as those of layers behind one that was dropped: the file has
// other tensors than its counterpart, and of some that lie all over it one has nothing of its namesake.
bool names_have_moved(const OrderedBase& base, const SafetensorsHeader& next,
                      const std::vector<std::optional<BaseTensor>>& by_name, const ContentSearch& search) {
  if (base.empty()) return false;
  const auto is_in_front = [&](const std::optional<BaseTensor>& found) { return found && found->file == base.first(); };
  if (base.front().file->header().tensors().size() == by_name.size() && std::ranges::all_of(by_name, is_in_front))
    return false;
  const std::size_t stride = std::max<std::size_t>(1, by_name.size() / k_names_looked_at);
  for (std::size_t i = 0; i < by_name.size(); i += stride) {
    if (by_name[i] && !search.agrees(next.tensors()[i], *by_name[i], 1)) return true;
  }
  return false;
}

}  // namespace

TensorSources find_sources(const OrderedBase& base, const SafetensorsHeader& next, const ByteReader& bytes,
                           const Execution& execution) {
  TensorSources sources;
  sources.base = base;
  if (!base.empty()) sources.files.push_back(&base.front());
  ContentSearch search(base, next, bytes);
  std::vector<std::optional<BaseTensor>> by_name;
  for (const Tensor& tensor : next.tensors()) by_name.push_back(find_by_name(base, tensor));
  const bool are_doubtful = names_have_moved(base, next, by_name, search);
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    execution.check_stop();
    const Tensor& tensor = next.tensors()[i];
    std::optional<BaseTensor> found = by_name[i];
    const bool is_doubtful = found && are_doubtful && !search.agrees(tensor, *found, k_sample_stretches);
    if (!found || is_doubtful) {
      const auto by_content = search.find(tensor);
      if (by_content) found = by_content;
    }
    if (!found) {
      if (!base.empty()) sources.exceptions[tensor.name] = std::nullopt;
      sources.places.emplace_back();
      continue;
    }
    const BaseFile* const file = &base.index().files()[found->file];
    auto used = std::ranges::find(sources.files, file);
    if (used == sources.files.end()) used = sources.files.insert(used, file);
    if (used != sources.files.begin() || found->tensor->name != tensor.name) {
      sources.exceptions[tensor.name] =
          Source{static_cast<std::size_t>(used - sources.files.begin()), found->tensor->name};
    }
    sources.places.push_back({file->file.get(), found->tensor->begin});
  }
  return sources;
}

}  // namespace wdelta
