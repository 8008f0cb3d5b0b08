// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wdelta::make_run {

/// The sizes of a decoder-only transformer with the tensors of Qwen2.
struct ModelShape {
  std::uint64_t hidden = 0;
  std::uint64_t intermediate = 0;
  std::uint64_t layers = 0;
  std::uint64_t heads = 0;
  std::uint64_t key_value_heads = 0;
  std::uint64_t vocabulary = 0;
  bool tied_embeddings = true;  ///< the output layer is the embedding, as in the small models of the family

  std::uint64_t key_value_width() const { return hidden / heads * key_value_heads; }

  /// The widest sensible model of at most `size_bytes` of bf16, filled up with layers and then with vocabulary: within
  /// a few per cent of `size_bytes` from 1 MiB up. Throws std::invalid_argument below 256 KiB.
  static ModelShape of_size(std::uint64_t size_bytes);
};

/// One bf16 tensor and how its numbers are spread: N(mean, sigma) before training.
struct TensorPlan {
  std::string name;
  std::uint64_t rows = 1;
  std::uint64_t columns = 0;  ///< always a multiple of 64
  bool vector = false;        ///< one dimension, of `columns` elements
  float mean = 0;
  float sigma = 0.02f;
  std::uint64_t silent_rows = 0;  ///< the last rows, which training never reaches
  bool sparse_rows = false;       ///< some of the other rows are never reached either

  std::uint64_t size_bytes() const { return rows * columns * 2; }
};

/// In the order of a state_dict.
std::vector<TensorPlan> tensors_of(const ModelShape& shape);

}  // namespace wdelta::make_run
