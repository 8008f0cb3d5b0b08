// SPDX-License-Identifier: Apache-2.0
// How the changes of one class are coded, and how the parameters of a group tell it (wdelta-delta.5, "Groups" and
// "Classes").
#pragma once

#include "engine/bits.hpp"
#include "engine/bucket.hpp"
#include "engine/symbol_table.hpp"

#include <cstdint>
#include <optional>

namespace wdelta {

/// One code for each bucket: symbol_table.hpp, "Weights in 6 bits".
using WeightCodes = BoundedList<std::uint8_t, 64>;
static_assert(k_gap_buckets <= 64 && k_magnitude_buckets <= 64);

inline constexpr std::uint32_t k_last_weight_code = 63;
inline constexpr std::uint32_t k_last_probability_code = 255;
/// A probability's code among those of smaller and smaller probabilities; the same backwards.
constexpr std::uint32_t rarity(std::uint32_t code) { return code ^ 15; }
/// How far gaps go about, where elements change with such a probability: six times the mean.
constexpr std::uint32_t expected_gap_buckets(std::uint32_t rarity) { return (rarity + 1) / 8 + 6; }

struct ClassCoding {
  std::optional<std::uint8_t> gap_probability;  ///< as probability_code() says; else gap_weights
  std::uint32_t gap_buckets = 0;                ///< how many there are; 0: the class has no changes
  WeightCodes gap_weights;
  std::optional<std::uint8_t> magnitude_probability;  ///< the same; else magnitude_weights
  std::uint32_t magnitude_buckets = 0;
  WeightCodes magnitude_weights;
  std::uint8_t sign = 128;  ///< probability of a set sign in 1/256; 128 where the group has no sign mask

  Frequencies gap_frequencies() const;
  Frequencies magnitude_frequencies() const;
  Frequencies step_frequencies() const;  ///< of magnitudes, each with both signs
  bool is_used() const { return gap_buckets != 0; }
};

/// What holds for all classes of a group.
struct ClassLimits {
  std::uint32_t gap_buckets;  ///< at most
  std::uint32_t magnitude_buckets;
  bool is_masked;  ///< whether each tells the probability of a sign
};

/// The classes of a group that has no reference, one after the other, each told by what is different from those before.
class ClassSeries {
 public:
  explicit ClassSeries(const ClassLimits& limits) : limits_(limits) {}

  void write(ClassCoding coding, BitWriter& bits);
  /// Throws Error(corrupt) with an empty object.
  ClassCoding read(BitReader& bits);

 private:
  template <class Exchange>
  void exchange(Exchange exchange, ClassCoding& coding);
  template <class Exchange>
  void exchange_magnitudes(Exchange& exchange, ClassCoding& coding);

  ClassLimits limits_;
  // What the next class is expected to be like.
  std::uint32_t gap_buckets_ = 1;
  std::uint32_t gap_rarity_ = 0;
  std::uint32_t magnitude_buckets_ = 1;
  std::uint32_t magnitude_rarity_ = 0;
  std::uint32_t sign_ = 128;
};

/// How many bits such a row of weights takes.
std::uint32_t told_bits(const WeightCodes& weights);

}  // namespace wdelta
