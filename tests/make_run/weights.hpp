// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "make_run/model_shape.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace wdelta::make_run {

struct Training {
  std::uint64_t seed = 1;
  double learning_rate = 3e-6;
};

/// What a step did to the elements that it was compared on.
struct Movement {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t neighbours = 0;  ///< of the changed: those that moved to the next or the previous bf16 number

  Movement& operator+=(const Movement& other);
};

/// The numbers of one tensor at any step of the training, row by row, each in constant time.
///
/// A weight has an fp32 master: what it was before training, plus learning rate times the sum of its updates so far.
/// The updates have the size and the memory of AdamW's normalised ones (root mean square near 0.15, never above 1,
/// strongly correlated from step to step): a fast wave and a slow wave with an amplitude and a phase per element and a
/// period per row, and a drift whose sign is row sign times column sign. Sums of waves and drifts are closed formulas,
/// so no master is ever kept. What is stored is the master rounded to bf16, to nearest even.
class Weights {
 public:
  /// Keeps a reference to `plan`.
  Weights(const TensorPlan& plan, const Training& training);

  /// Writes the bits of row `row` at `step` to `bits`, which holds `plan.columns` elements, and says how they moved
  /// since the step before. `step` is at least 1: step 0 is before training.
  Movement row_at(std::uint64_t step, std::uint64_t row, std::span<std::uint16_t> bits) const;

  const TensorPlan& plan() const { return *plan_; }

 private:
  const TensorPlan* plan_;
  double learning_rate_;
  std::uint64_t key_;
  std::vector<float> column_drift_;
};

}  // namespace wdelta::make_run
