// SPDX-License-Identifier: Apache-2.0
#include "delta/opaque_coding.hpp"

#include "engine/group.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace wdelta {

namespace {

// Bytes, half and single precision: what the formats in use hold. Wider elements show as pairs of narrow ones.
constexpr std::string_view k_tried_dtypes[] = {"U8", "BF16", "F32"};
constexpr std::uint64_t k_stretch_bytes = std::uint64_t{1} << 16;
constexpr std::uint64_t k_most_stretches = 16;

// Stretches spread over the file, each beginning at a multiple of its own size, so that elements are not cut.
std::vector<std::uint8_t> sample_of(const ByteReader& file, std::uint64_t size_bytes) {
  const std::uint64_t stretches = (size_bytes + k_stretch_bytes - 1) / k_stretch_bytes;
  const std::uint64_t taken = std::min(stretches, k_most_stretches);
  std::vector<std::uint8_t> sample;
  for (std::uint64_t i = 0; i < taken; ++i) {
    const std::uint64_t begin = stretches * i / taken * k_stretch_bytes;
    // A whole number of the widest elements.
    const std::size_t size = std::min(k_stretch_bytes, size_bytes - begin) / 8 * 8;
    sample.resize(sample.size() + size);
    file.read_at(begin, std::span(sample).last(size));
  }
  return sample;
}

}  // namespace

std::optional<OpaqueCoding> choose_opaque_coding(const std::shared_ptr<const ByteReader>& base, const ByteReader& next,
                                                 const Engine& engine) {
  const std::uint64_t size_bytes = next.size_bytes();
  const auto next_sample = sample_of(next, size_bytes);
  std::vector<std::uint8_t> base_sample(next_sample.size());

  std::optional<OpaqueCoding> best;
  std::uint64_t best_bytes = next_sample.size();
  GroupEncoder encoder(engine, BlockChoice::unknown_bytes);
  CodedGroup group;
  const auto try_all = [&](bool with_base) {
    for (const std::string_view name : k_tried_dtypes) {
      const Dtype* dtype = dtype_named(name);
      const ElementType type = {dtype->width_bytes, dtype->floating ? ElementKind::floating : ElementKind::integer};
      const std::size_t block = std::size_t{k_block_elements} * dtype->width_bytes;
      encoder.begin(type, {}, ExpectedElements::exactly(next_sample.size() / dtype->width_bytes));
      for (std::size_t at = 0; at < next_sample.size(); at += block) {
        const std::size_t size = std::min(block, next_sample.size() - at);
        encoder.add(std::span(base_sample).subspan(at, size), std::span(next_sample).subspan(at, size));
      }
      encoder.finish(group);
      const std::size_t coded_bytes = group.parameters.size() + group.bytes.size();
      if (!pays(coded_bytes, next_sample.size()) || coded_bytes >= best_bytes) continue;
      best = OpaqueCoding{dtype, with_base};
      best_bytes = coded_bytes;
    }
  };
  try_all(false);
  if (base != nullptr) {
    base_sample = sample_of(ResizedReader(base, size_bytes), size_bytes);
    try_all(true);
  }
  return best;
}

}  // namespace wdelta
