// SPDX-License-Identifier: Apache-2.0
#include "make_run/model_shape.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace wdelta::make_run {

namespace {

constexpr std::uint64_t k_granule = 64;  // every width is a multiple of it
constexpr std::uint64_t k_widest = 16384;
constexpr std::uint64_t k_full_vocabulary = 151936;

ModelShape of_width(std::uint64_t hidden) {
  ModelShape shape;
  shape.hidden = hidden;
  shape.intermediate = (hidden * 21 / 4 + k_granule - 1) / k_granule * k_granule;
  shape.layers = 2 + hidden / 96;
  shape.heads = hidden / (hidden < 2048 ? 64 : 128);
  shape.key_value_heads = std::max<std::uint64_t>(1, shape.heads / 4);
  while (shape.heads % shape.key_value_heads != 0) --shape.key_value_heads;
  shape.vocabulary = std::min(64 * hidden, k_full_vocabulary);
  shape.tied_embeddings = hidden <= 2048;
  return shape;
}

std::uint64_t next_width(std::uint64_t hidden) { return hidden + (hidden < 512 ? 64 : hidden < 2048 ? 128 : 512); }

std::uint64_t layer_bytes(const ModelShape& shape) {
  const std::uint64_t attention = 2 * shape.hidden * (shape.hidden + shape.key_value_width());
  const std::uint64_t biases = shape.hidden + 2 * shape.key_value_width();
  return 2 * (attention + biases + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden);
}

std::uint64_t row_bytes(const ModelShape& shape) { return 2 * shape.hidden * (shape.tied_embeddings ? 1 : 2); }

std::uint64_t total_bytes(const ModelShape& shape) {
  return shape.vocabulary * row_bytes(shape) + shape.layers * layer_bytes(shape) + 2 * shape.hidden;
}

TensorPlan matrix(std::string name, std::uint64_t rows, std::uint64_t columns) {
  TensorPlan plan{.name = std::move(name), .rows = rows, .columns = columns};
  // The spread of trained matrices follows 1/sqrt(fan_in) from above: very narrow models would otherwise have weights
  // so large that a step of 3e-6 moves none of them.
  plan.sigma = std::clamp(1.0f / std::sqrt(static_cast<float>(columns)), 0.02f, 0.03f);
  return plan;
}

TensorPlan vector(std::string name, std::uint64_t columns, float mean) {
  return {.name = std::move(name), .columns = columns, .vector = true, .mean = mean, .sigma = 0.1f};
}

}  // namespace

ModelShape ModelShape::of_size(std::uint64_t size_bytes) {
  ModelShape shape = of_width(k_granule);
  if (size_bytes < total_bytes(shape)) {
    shape.layers = 1;
    shape.vocabulary = 512;
  }
  if (size_bytes < total_bytes(shape)) throw std::invalid_argument("the size must be at least 256K");
  for (std::uint64_t hidden = k_granule; hidden <= k_widest; hidden = next_width(hidden)) {
    const ModelShape wider = of_width(hidden);
    if (total_bytes(wider) <= size_bytes) shape = wider;
  }
  shape.layers += (size_bytes - total_bytes(shape)) / layer_bytes(shape);
  shape.vocabulary += (size_bytes - total_bytes(shape)) / row_bytes(shape);
  return shape;
}

std::vector<TensorPlan> tensors_of(const ModelShape& shape) {
  const std::uint64_t narrow = shape.key_value_width();
  std::vector<TensorPlan> plans;
  plans.push_back(matrix("model.embed_tokens.weight", shape.vocabulary, shape.hidden));
  plans.back().sigma = 0.02f;
  plans.back().silent_rows = shape.vocabulary / 128;  // the padding after the last token
  plans.back().sparse_rows = true;
  for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    plans.push_back(matrix(at + "self_attn.q_proj.weight", shape.hidden, shape.hidden));
    plans.push_back(vector(at + "self_attn.q_proj.bias", shape.hidden, 0));
    plans.push_back(matrix(at + "self_attn.k_proj.weight", narrow, shape.hidden));
    plans.push_back(vector(at + "self_attn.k_proj.bias", narrow, 0));
    plans.push_back(matrix(at + "self_attn.v_proj.weight", narrow, shape.hidden));
    plans.push_back(vector(at + "self_attn.v_proj.bias", narrow, 0));
    plans.push_back(matrix(at + "self_attn.o_proj.weight", shape.hidden, shape.hidden));
    plans.push_back(matrix(at + "mlp.gate_proj.weight", shape.intermediate, shape.hidden));
    plans.push_back(matrix(at + "mlp.up_proj.weight", shape.intermediate, shape.hidden));
    plans.push_back(matrix(at + "mlp.down_proj.weight", shape.hidden, shape.intermediate));
    plans.push_back(vector(at + "input_layernorm.weight", shape.hidden, 1));
    plans.push_back(vector(at + "post_attention_layernorm.weight", shape.hidden, 1));
  }
  plans.push_back(vector("model.norm.weight", shape.hidden, 1));
  if (!shape.tied_embeddings) plans.push_back(matrix("lm_head.weight", shape.vocabulary, shape.hidden));
  return plans;
}

}  // namespace wdelta::make_run
