// SPDX-License-Identifier: Apache-2.0
// What the bits of a delta are spent on. Prints one line for each delta: its bytes, its changes, and the bits of
// positions, signs and distances of classed blocks (what the coder's frequencies say, raw bits, and skipped rows). Then
// one line for each tensor: the bytes of its blocks with what is said of their groups, and its name.
//
// usage: bench-delta-split BASE DELTA...
#include "base/file.hpp"
#include "delta/delta_reader.hpp"
#include "delta/group_references.hpp"
#include "delta/tensor_blocks.hpp"
#include "engine/classed_decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

using namespace wdelta;

struct Split {
  double positions = 0;
  double signs = 0;
  double distances = 0;
};

void add_batch(const GroupTables& group, const ClassedSymbols& symbols, Split& split) {
  std::vector<Frequencies> gaps;
  std::vector<Frequencies> steps;
  for (const ClassCoding& coding : group.parameters().classes) {
    gaps.push_back(coding.is_used() ? coding.gap_frequencies() : Frequencies());
    steps.push_back(coding.is_used() ? coding.step_frequencies() : Frequencies());
  }
  for (std::size_t i = 0; i < symbols.classes.size(); ++i) {
    const std::uint8_t k = symbols.classes[i];
    const std::uint32_t bucket = symbols.steps[i] / 2U;
    const double sign = steps[k][symbols.steps[i]];
    const double both = steps[k][2 * bucket] + steps[k][2 * bucket + 1];
    split.positions += std::log2(k_scale / double{gaps[k][symbols.gaps[i]] + 0.0}) + bucket_raw_bits(symbols.gaps[i]);
    split.signs += std::log2(both / sign);
    split.distances += std::log2(k_scale / both) + bucket_raw_bits(bucket);
  }
}

void add_entry(const std::shared_ptr<const DeltaReader>& delta, const DeltaEntry& entry, const Tensor& tensor,
               Split& split) {
  ClassedDecoder decoder;
  GroupReferences references;
  for (const EntryGroup& group : entry.groups()) {
    if (group.parameters_bytes == 0) continue;
    std::vector<std::uint8_t> parameters(group.parameters_bytes);
    delta->read_at(group.parameters_begin, parameters);
    const std::uint64_t first = group.first_block() * k_block_elements;
    const GroupTables tables(parameters,
                             {element_type(tensor), group.block_count(),
                              std::min(group.block_count() * k_block_elements, tensor.element_count() - first),
                              MatrixPlace{row_elements(tensor), first}, group.strips.blocks_in_strip},
                             references.of(delta, group, element_type(tensor)));
    if (tables.skips_rows()) split.positions += static_cast<double>(told_bits(tables.parameters().skipped));
    for (std::uint64_t strip = 0; strip < group.strips.count(); strip += group.strips_in_batch) {
      const IndexRange strips{strip, std::min(strip + group.strips_in_batch, group.strips.count())};
      const auto counts = std::span(tables.parameters().strips).subspan(strip, strips.end - strip);
      if (std::ranges::none_of(counts, is_classed)) continue;
      const DeltaEntry::Place place = entry.place_of(group.first_block() + group.strips.blocks_of(strip).first);
      std::vector<std::uint8_t> coded(place.end - place.begin);
      delta->read_at(place.begin, coded);
      add_batch(tables, decoder.symbols(best_engine(), tables, strips, coded), split);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench-delta-split BASE DELTA...\n");
    return 2;
  }
  const SafetensorsHeader header = SafetensorsHeader::read(*std::make_shared<File>(File::open(argv[1])));
  for (int i = 2; i < argc; ++i) {
    const auto delta =
        std::make_shared<const DeltaReader>(DeltaReader::open(std::make_shared<File>(File::open(argv[i]))));
    Split split;
    for (const DeltaEntry& entry : delta->entries()) {
      if (const Tensor* tensor = header.find(entry.tensor())) add_entry(delta, entry, *tensor, split);
    }
    std::printf("%llu %llu %.0f %.0f %.0f\n", static_cast<unsigned long long>(delta->size_bytes()),
                static_cast<unsigned long long>(delta->description().change_count), split.positions, split.signs,
                split.distances);
    for (const DeltaEntry& entry : delta->entries()) {
      std::printf("%llu %s\n", static_cast<unsigned long long>(entry.size_bytes()), entry.tensor().c_str());
    }
  }
  return 0;
}
