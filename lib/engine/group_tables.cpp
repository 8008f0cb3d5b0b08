// SPDX-License-Identifier: Apache-2.0
#include "engine/group_tables.hpp"

#include "base/error.hpp"
#include "engine/bits.hpp"

#include <algorithm>
#include <string>

namespace wdelta {
namespace {

constexpr std::uint32_t k_has_columns = 0x10;
constexpr std::uint32_t k_has_rows = 0x20;

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", "group parameters: " + what); }

std::uint32_t zigzag(std::int32_t value) {
  return static_cast<std::uint32_t>(value) << 1 ^ static_cast<std::uint32_t>(value >> 31);
}
std::int32_t unzigzag(std::uint32_t value) {
  return static_cast<std::int32_t>(value >> 1) ^ -static_cast<std::int32_t>(value & 1);
}

/// Foretells how many changes of one class the next strip has: as many as those before had in the mean. How far off
/// that may be follows from the number, where changes are strewn, and from how far off it was lately, where they are
/// not.
class CountModel {
 public:
  void write(std::uint32_t count, BitWriter& bits) {
    const std::uint32_t difference = zigzag(static_cast<std::int32_t>(count) - static_cast<std::int32_t>(expected()));
    if (seen_ == 0) {
      bits.write_exp_golomb(difference, k_first_order);
    } else if (difference >> order() < k_most_zeros) {
      bits.write(0, difference >> order());
      bits.write(1, 1);
      bits.write(difference & ((1U << order()) - 1), order());
    } else {
      bits.write(0, k_most_zeros);
      bits.write_exp_golomb(difference - (k_most_zeros << order()), order());
    }
    learn(count, difference);
  }

  /// Not a number of changes where the bits are none.
  std::int64_t read(BitReader& bits) {
    const std::uint32_t difference = read_difference(bits);
    if (difference > 2 * k_most_batch_changes) return -1;
    const std::int64_t count = std::int64_t{expected()} + unzigzag(difference);
    if (count >= 0 && count <= k_most_batch_changes) learn(static_cast<std::uint32_t>(count), difference);
    return count;
  }

 private:
  static constexpr std::uint32_t k_first_order = 6;
  static constexpr std::uint32_t k_most_zeros = 8;
  static constexpr std::uint32_t k_most_seen = 16;
  static constexpr std::uint32_t k_telling_differences = 3;

  std::uint32_t expected() const { return (mean_ + 8) / 16; }
  std::uint32_t order() const {
    const auto log2 = [](std::uint32_t value) {
      return value == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(value)) - 1;
    };
    const std::uint32_t strewn = log2((expected() + expected() / seen_) * 5 / 2) / 2;
    return seen_ > k_telling_differences ? std::max(strewn, log2(lately_ / 4)) : strewn;
  }
  std::uint32_t read_difference(BitReader& bits) const {
    if (seen_ == 0) return bits.read_exp_golomb(k_first_order);
    const std::uint32_t zeros = bits.read_zeros(k_most_zeros);
    const std::uint32_t begin = zeros << order();
    if (zeros < k_most_zeros) return begin + bits.read(order());
    const std::uint32_t beyond = bits.read_exp_golomb(order());
    return beyond > 2 * k_most_batch_changes ? beyond : begin + beyond;
  }
  void learn(std::uint32_t count, std::uint32_t difference) {
    // What the first one is off by says nothing of the others.
    if (seen_ > 0) lately_ = seen_ == 1 ? 4 * difference : lately_ - lately_ / 4 + difference;
    seen_ = std::min(seen_ + 1, k_most_seen);
    mean_ = (mean_ * (seen_ - 1) + 16 * count) / seen_;
  }

  std::uint32_t mean_ = 0;    // in 1/16
  std::uint32_t lately_ = 0;  // four times the mean difference
  std::uint32_t seen_ = 0;
};

void write_weights(BitWriter& bits, const WeightCodes& weights) {
  for (const std::uint8_t weight : weights) bits.write(weight, 6);
}

WeightCodes read_weights(BitReader& bits, std::uint32_t count) {
  WeightCodes weights(count);
  for (std::uint8_t& weight : weights) weight = static_cast<std::uint8_t>(bits.read(6));
  if (std::ranges::all_of(weights, [](std::uint8_t weight) { return weight == 0; })) refuse("all weights are 0");
  return weights;
}

Weights weights_of(const WeightCodes& codes) {
  Weights weights;
  for (const std::uint8_t code : codes) weights.push_back(weight_of(code));
  return weights;
}

Weights magnitude_weights_of(const ClassCoding& coding) {
  return coding.magnitude_probability ? geometric_weights(*coding.magnitude_probability, coding.magnitude_buckets)
                                      : weights_of(coding.magnitude_weights);
}

void write_line_bits(BitWriter& bits, const std::vector<std::uint8_t>& bytes) {
  for (const std::uint8_t byte : bytes) bits.write(byte, 8);
}

std::vector<std::uint8_t> read_line_bits(BitReader& bits, std::uint64_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t left = (count + 7) / 8; left > 0; --left) {
    bytes.push_back(static_cast<std::uint8_t>(bits.read(8)));
    if (bits.is_overrun()) refuse("they are cut off");
  }
  return bytes;
}

/// In which their number is told.
std::uint32_t gap_bucket_bits(std::uint32_t blocks_in_strip) { return blocks_in_strip == 1 ? 5 : 6; }

ClassCoding read_class(BitReader& bits, const GroupShape& shape, bool is_masked) {
  ClassCoding coding;
  if (bits.read(1) == 0) return coding;
  const bool is_geometric = bits.read(1) == 0;
  coding.gap_buckets = bits.read(gap_bucket_bits(shape.blocks_in_strip)) + 1;
  if (coding.gap_buckets > most_gap_buckets(shape.blocks_in_strip)) refuse("a gap is longer than a strip");
  if (is_geometric) {
    coding.gap_probability = static_cast<std::uint8_t>(bits.read(8));
  } else {
    coding.gap_weights = read_weights(bits, coding.gap_buckets);
  }
  const bool is_magnitude_geometric = bits.read(1) == 0;
  coding.magnitude_buckets = bits.read(6) + 1;
  if (coding.magnitude_buckets > 2 * (8U * shape.type.width_bytes - 1)) refuse("a step is wider than the element");
  if (is_magnitude_geometric) {
    coding.magnitude_probability = static_cast<std::uint8_t>(bits.read(8));
  } else {
    coding.magnitude_weights = read_weights(bits, coding.magnitude_buckets);
  }
  if (is_masked) coding.sign = static_cast<std::uint8_t>(bits.read(8));
  if (coding.sign == 0) refuse("a sign is never set");
  return coding;
}

void read_counts(BitReader& bits, const GroupShape& shape, GroupParameters& group) {
  std::array<CountModel, k_most_classes> models;
  const Strips strips = shape.strips();
  for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
    ClassCounts& counts = group.strips.emplace_back();
    if (bits.is_overrun()) refuse("they are cut off");
    if (bits.read(1) == 0) continue;
    std::uint64_t changes = 0;
    for (std::uint32_t k = 0; k < group.class_count(); ++k) {
      if (!group.classes[k].is_used()) continue;
      const std::int64_t count = models[k].read(bits);
      if (count < 0 || count > k_most_batch_changes)
        refuse("a strip has fewer changes of a class than none, or more than any may have");
      counts[k] = static_cast<std::uint32_t>(count);
      changes += counts[k];
    }
    const std::uint64_t elements = shape.elements_of(strips.blocks_of(strip));
    if (changes == 0 || changes > elements) {
      refuse("a strip has " + std::to_string(changes) + " changes in " + std::to_string(elements) + " elements");
    }
  }
}

}  // namespace

Frequencies ClassCoding::gap_frequencies() const {
  return frequencies_of(gap_probability ? geometric_weights(*gap_probability, gap_buckets) : weights_of(gap_weights));
}

Frequencies ClassCoding::magnitude_frequencies() const { return frequencies_of(magnitude_weights_of(*this)); }

Frequencies ClassCoding::step_frequencies() const {
  return wdelta::step_frequencies(magnitude_weights_of(*this), sign);
}

void GroupParameters::write(std::vector<std::uint8_t>& bytes) const {
  BitWriter bits(bytes);
  bits.write(class_count() - 1, 4);
  bits.write(mask.columns.empty() ? 0 : 1, 1);
  bits.write(mask.rows.empty() ? 0 : 1, 1);
  bits.write(0, 2);
  for (const std::uint8_t bound : bounds) bits.write(bound, 8);
  for (const ClassCoding& coding : classes) {
    bits.write(coding.is_used() ? 1 : 0, 1);
    if (!coding.is_used()) continue;
    bits.write(coding.gap_probability ? 0 : 1, 1);
    bits.write(coding.gap_buckets - 1, gap_bucket_bits(blocks_in_strip));
    if (coding.gap_probability) {
      bits.write(*coding.gap_probability, 8);
    } else {
      write_weights(bits, coding.gap_weights);
    }
    bits.write(coding.magnitude_probability ? 0 : 1, 1);
    bits.write(coding.magnitude_buckets - 1, 6);
    if (coding.magnitude_probability) {
      bits.write(*coding.magnitude_probability, 8);
    } else {
      write_weights(bits, coding.magnitude_weights);
    }
    if (!mask.is_empty()) bits.write(coding.sign, 8);
  }
  write_line_bits(bits, mask.columns);
  write_line_bits(bits, mask.rows);
  std::array<CountModel, k_most_classes> models;
  for (const ClassCounts& counts : strips) {
    bits.write(is_classed(counts) ? 1 : 0, 1);
    if (!is_classed(counts)) continue;
    for (std::uint32_t k = 0; k < class_count(); ++k) {
      if (!classes[k].is_used()) continue;
      models[k].write(counts[k], bits);
    }
  }
  bits.finish();
}

GroupParameters read_group_parameters(std::span<const std::uint8_t> bytes, const GroupShape& shape) {
  GroupParameters group;
  group.blocks_in_strip = shape.blocks_in_strip;
  BitReader bits(bytes);
  const std::uint32_t head = bits.read(8);
  if ((head & 0xc0) != 0) refuse("they set bits that are kept for later versions");
  if (shape.type.width_bytes > 4) refuse("elements of 8 bytes have none");
  for (std::uint32_t k = 0; k < (head & 0x0f); ++k) {
    group.bounds.push_back(static_cast<std::uint8_t>(bits.read(8)));
    if (group.bounds.back() <= (k == 0 ? 0 : group.bounds[k - 1])) refuse("bounds do not ascend");
  }
  const bool has_columns = (head & k_has_columns) != 0;
  const bool has_rows = (head & k_has_rows) != 0;
  if ((has_columns || has_rows) && !shape.place.has_rows()) refuse("a sign mask for what is no matrix");
  for (std::uint32_t k = 0; k <= (head & 0x0f); ++k) {
    group.classes.push_back(read_class(bits, shape, has_columns || has_rows));
  }
  if (has_columns) group.mask.columns = read_line_bits(bits, shape.place.row_elements);
  if (has_rows) group.mask.rows = read_line_bits(bits, shape.place.row_count(shape.element_count));
  read_counts(bits, shape, group);
  if (bits.is_overrun()) refuse("they are cut off");
  if (!bits.is_at_end()) refuse("bytes left over");
  if (std::ranges::none_of(group.strips, is_classed)) refuse("no strip needs any");
  return group;
}

}  // namespace wdelta
