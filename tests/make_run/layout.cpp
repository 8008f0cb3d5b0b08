// SPDX-License-Identifier: Apache-2.0
#include "make_run/layout.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace wdelta::make_run {

namespace {

std::string shard_name(std::size_t shard, std::size_t shard_count) {
  if (shard_count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, shard_count);
  return name;
}

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

std::string header_entry(const TensorPlan& plan, std::uint64_t begin) {
  const std::string shape = (plan.vector ? "" : std::to_string(plan.rows) + ",") + std::to_string(plan.columns);
  return "\"" + plan.name + R"(":{"dtype":"BF16","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(begin) +
         "," + std::to_string(begin + plan.size_bytes()) + "]}";
}

void place(const std::vector<TensorPlan>& plans, ShardLayout& shard) {
  std::sort(shard.tensors.begin(), shard.tensors.end(), [&](const PlacedTensor& left, const PlacedTensor& right) {
    return plans[left.tensor].name < plans[right.tensor].name;
  });
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t offset = 0;
  for (PlacedTensor& placed : shard.tensors) {
    const TensorPlan& plan = plans[placed.tensor];
    header += "," + header_entry(plan, offset);
    placed.offset = offset;
    offset += plan.size_bytes();
  }
  header += "}";
  while (header.size() % 8 != 0) header += " ";
  shard.head = little_endian(header.size()) + header;
  for (PlacedTensor& placed : shard.tensors) placed.offset += shard.head.size();
}

}  // namespace

std::vector<ShardLayout> shards_of(const std::vector<TensorPlan>& plans, std::size_t shard_count) {
  std::uint64_t total = 0;
  for (const TensorPlan& plan : plans) total += plan.size_bytes();

  // A tensor belongs to the shard that its middle falls into. In floating point, because hundreds of GB times a
  // shard count may not fit into 64 bits.
  std::map<std::size_t, ShardLayout> filled;
  std::uint64_t begin = 0;
  for (std::size_t tensor = 0; tensor < plans.size(); ++tensor) {
    const double middle = static_cast<double>(begin) + static_cast<double>(plans[tensor].size_bytes()) / 2;
    const double share = middle / static_cast<double>(total);
    filled[static_cast<std::size_t>(share * static_cast<double>(shard_count))].tensors.push_back({.tensor = tensor});
    begin += plans[tensor].size_bytes();
  }

  std::vector<ShardLayout> shards;
  for (auto& [slot, shard] : filled) {
    shard.file_name = shard_name(shards.size(), filled.size());
    place(plans, shard);
    shards.push_back(std::move(shard));
  }
  return shards;
}

std::string index_of(const std::vector<TensorPlan>& plans, const std::vector<ShardLayout>& shards) {
  std::map<std::string, std::string> file_of;
  std::uint64_t total = 0;
  for (const ShardLayout& shard : shards) {
    for (const PlacedTensor& placed : shard.tensors) {
      file_of[plans[placed.tensor].name] = shard.file_name;
      total += plans[placed.tensor].size_bytes();
    }
  }
  std::string text = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total) + "\n  },\n";
  text += "  \"weight_map\": {";
  const char* separator = "\n";
  for (const auto& [tensor, file] : file_of) {
    text += separator + ("    \"" + tensor + "\": \"" + file + "\"");
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace wdelta::make_run
