// SPDX-License-Identifier: Apache-2.0
#include "make_run/weights.hpp"

#include "make_run/draw.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace wdelta::make_run {

namespace {

// A constant trip count lets the compilers vectorise the inner loop at -O2; every column count is a multiple of it.
constexpr std::size_t k_block = 64;

constexpr double k_wave = 0.16;  // amplitude of each wave, in updates
constexpr double k_drift = 0.06;

/// What multiplies an element's four draws, and its column's drift, in the sum of its updates up to one step.
struct Travel {
  float fast_cosine = 0;
  float fast_sine = 0;
  float slow_cosine = 0;
  float slow_sine = 0;
  float drift = 0;
};

struct Row {
  std::uint32_t keys[3];
  float mean;
  float scale;  // from the integer sum of draws to N(0, sigma)
};

/// `scramble` for 32-bit lanes.
inline std::uint32_t stir(std::uint32_t word) {
  word = (word ^ (word >> 16)) * 0x9e3779b1u;
  word = (word ^ (word >> 15)) * 0x85ebca77u;
  return word ^ (word >> 16);
}

/// A byte as a number symmetric about 0: -255 .. 255, odd.
inline float centred(std::uint32_t byte) { return static_cast<float>(static_cast<std::int32_t>(2 * byte) - 255); }

inline std::uint32_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest even; there are no NaNs here
}

struct Element {
  float start;
  float draws[4];

  float master(const Travel& travel, float column_drift) const {
    return start + (travel.fast_cosine * draws[0] + travel.fast_sine * draws[1] + travel.slow_cosine * draws[2] +
                    travel.slow_sine * draws[3] + travel.drift * column_drift);
  }
};

inline Element element_at(const Row& row, std::uint32_t column) {
  const std::uint32_t first = stir(column * 0x9e3779b9u + row.keys[0]);
  const std::uint32_t second = stir(first ^ row.keys[1]);
  const std::uint32_t third = stir(second ^ row.keys[2]);
  // The sum of four uniform draws is close to normal. The low bits keep the masters of small weights from falling on
  // the few values that a sum of 16-bit draws can take.
  const std::uint32_t sum = (first & 0xffffu) + (first >> 16) + (second & 0xffffu) + (second >> 16);
  const std::int32_t normal = static_cast<std::int32_t>((sum - 0x1fffeu) * 4096u + ((first ^ third) >> 20));
  return {
      row.mean + row.scale * static_cast<float>(normal),
      {centred(third & 0xffu), centred((third >> 8) & 0xffu), centred((third >> 16) & 0xffu), centred(third >> 24)}};
}

Row row_of(const TensorPlan& plan, std::uint64_t key) {
  const std::uint64_t more = draw(key, 1);
  // Rows differ in spread, which gives a whole tensor the heavier tails that trained ones have.
  const double sigma = static_cast<double>(plan.sigma) * static_cast<double>(between(draw(key, 2), 0.7f, 1.3f));
  const double one_sigma = 65536.0 * 4096.0 * std::sqrt(4.0 / 12.0);
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(more)},
          plan.mean,
          static_cast<float>(sigma / one_sigma)};
}

bool is_silent(const TensorPlan& plan, std::uint64_t row, std::uint64_t key) {
  return row >= plan.rows - plan.silent_rows || (plan.sparse_rows && draw(key, 3) % 32 == 0);
}

/// The waves x cos(w s) - y sin(w s) summed over s from 0 to `step`, by their integral.
Travel travel_to(std::uint64_t step, std::uint64_t key, double learning_rate) {
  const double size = learning_rate * static_cast<double>(between(draw(key, 4), 0.6f, 1.4f));
  const double fast = 2 * std::numbers::pi / static_cast<double>(between(draw(key, 5), 8.0f, 16.0f));
  const double slow = 2 * std::numbers::pi / static_cast<double>(between(draw(key, 6), 40.0f, 160.0f));
  const double sign = draw(key, 7) % 2 == 0 ? 1 : -1;
  const double time = static_cast<double>(step);
  const double draw_size = size * k_wave / 256;
  return {static_cast<float>(draw_size * std::sin(fast * time) / fast),
          static_cast<float>(draw_size * (std::cos(fast * time) - 1) / fast),
          static_cast<float>(draw_size * std::sin(slow * time) / slow),
          static_cast<float>(draw_size * (std::cos(slow * time) - 1) / slow),
          static_cast<float>(size * k_drift * sign * time)};
}

}  // namespace

Movement& Movement::operator+=(const Movement& other) {
  elements += other.elements;
  changed += other.changed;
  neighbours += other.neighbours;
  return *this;
}

Weights::Weights(const TensorPlan& plan, const Training& training)
    : plan_(&plan), learning_rate_(training.learning_rate), key_(draw(draw(training.seed, "weights"), plan.name)) {
  const std::uint64_t key = draw(key_, "columns");
  column_drift_.resize(plan.columns);
  for (std::size_t column = 0; column < column_drift_.size(); ++column) {
    const std::uint64_t drawn = draw(key, column);
    column_drift_[column] = between(drawn, 0.5f, 1.5f) * (drawn % 2 == 0 ? 1.0f : -1.0f);
  }
}

Movement Weights::row_at(std::uint64_t step, std::uint64_t row, std::span<std::uint16_t> bits) const {
  const std::uint64_t key = draw(key_, row);
  const Row place = row_of(*plan_, key);
  const bool silent = is_silent(*plan_, row, key);
  const Travel before = silent ? Travel{} : travel_to(step - 1, key, learning_rate_);
  const Travel after = silent ? Travel{} : travel_to(step, key, learning_rate_);
  Movement movement{.elements = bits.size()};
  for (std::size_t begin = 0; begin < bits.size(); begin += k_block) {
    const float* drift = column_drift_.data() + begin;
    std::uint16_t* out = bits.data() + begin;
    std::uint16_t block[k_block];
    std::uint32_t changed = 0;
    std::uint32_t neighbours = 0;
    for (std::size_t i = 0; i < k_block; ++i) {
      const Element element = element_at(place, static_cast<std::uint32_t>(begin + i));
      const std::uint32_t old_bits = to_bf16(element.master(before, drift[i]));
      const std::uint32_t new_bits = to_bf16(element.master(after, drift[i]));
      changed += old_bits != new_bits ? 1u : 0u;
      // A distance of 1 either way; a weight that crosses zero is not a neighbour.
      neighbours += (new_bits - old_bits == 1u ? 1u : 0u) + (old_bits - new_bits == 1u ? 1u : 0u);
      block[i] = static_cast<std::uint16_t>(new_bits);
    }
    for (std::size_t i = 0; i < k_block; ++i) out[i] = block[i];
    movement.changed += changed;
    movement.neighbours += neighbours;
  }
  return movement;
}

}  // namespace wdelta::make_run
