// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "make_run/model_shape.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wdelta::make_run {

/// A tensor's place in a safetensors file.
struct PlacedTensor {
  std::size_t tensor = 0;    ///< its index in the list of plans
  std::uint64_t offset = 0;  ///< of its first byte in the file
};

/// One safetensors file: what it is called, how it begins, and what follows.
struct ShardLayout {
  std::string file_name;
  std::string head;  ///< the length field and the header, padded with spaces to a multiple of 8
  std::vector<PlacedTensor> tensors;
};

/// Cuts the state_dict `plans` into at most `shard_count` files of about the same size, each with its tensors sorted by
/// name as the safetensors writer does. One shard is called model.safetensors.
std::vector<ShardLayout> shards_of(const std::vector<TensorPlan>& plans, std::size_t shard_count);

/// model.safetensors.index.json
std::string index_of(const std::vector<TensorPlan>& plans, const std::vector<ShardLayout>& shards);

}  // namespace wdelta::make_run
