// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "make_run/model_shape.hpp"
#include "make_run/weights.hpp"

#include <cstdint>
#include <string>

namespace wdelta::make_run {

/// The files that a training script saves beside the weights, as text or bytes.
std::string config_json(const ModelShape& shape);
std::string generation_config_json();
/// A byte-pair vocabulary of some tens of KB; the same at each step.
std::string tokenizer_json(const Training& training);
/// A log that grows by one entry a step, after a few lines that change.
std::string trainer_state_json(const Training& training, std::uint64_t step);
/// 4 KiB in place of a pickled scheduler: one half stays, the other is new at each step.
std::string scheduler_bytes(const Training& training, std::uint64_t step);

}  // namespace wdelta::make_run
