// SPDX-License-Identifier: Apache-2.0
// A small writer of safetensors files, independent of the library's reader.
#pragma once

#include "testing/random.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta::testing {

struct DtypeBits {
  std::string_view name;
  unsigned bits;
};
inline constexpr std::array<DtypeBits, 22> k_all_dtypes = {
    {{"BF16", 16},       {"F16", 16},        {"F32", 32},    {"F64", 64},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"I8", 8},     {"I16", 16},    {"I32", 32},
     {"I64", 64},        {"U8", 8},          {"U16", 16},    {"U32", 32},   {"U64", 64},    {"BOOL", 8},
     {"C64", 64},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

struct TestTensor {
  std::string name;
  std::string dtype = "BF16";
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// A tensor of one dimension with random bits.
inline TestTensor random_tensor(std::string name, DtypeBits dtype, std::uint64_t element_count,
                                std::mt19937_64& random) {
  return {
      std::move(name), std::string(dtype.name), {element_count}, random_bytes(random, element_count * dtype.bits / 8)};
}

inline std::string tensor_json(const TestTensor& tensor, std::uint64_t begin) {
  std::string shape;
  for (const std::uint64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
  return "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(begin + tensor.bytes.size()) + "]}";
}

/// A file with this header, whatever it says, and these bytes behind it.
inline std::vector<std::uint8_t> raw_safetensors(std::string_view header, const std::vector<std::uint8_t>& payload) {
  std::vector<std::uint8_t> file;
  for (unsigned shift = 0; shift < 64; shift += 8) file.push_back(static_cast<std::uint8_t>(header.size() >> shift));
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

/// The tensors one behind the other. `metadata`: the text of the object behind __metadata__, or empty for none.
/// `padding` blanks end the header.
inline std::vector<std::uint8_t> safetensors_file(const std::vector<TestTensor>& tensors,
                                                  std::string_view metadata = {}, std::size_t padding = 0) {
  std::string header = "{";
  if (!metadata.empty()) header += "\"__metadata__\":" + std::string(metadata);
  std::vector<std::uint8_t> payload;
  for (const TestTensor& tensor : tensors) {
    header += (header.size() > 1 ? "," : "") + tensor_json(tensor, payload.size());
    payload.insert(payload.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  header += "}" + std::string(padding, ' ');
  return raw_safetensors(header, payload);
}

}  // namespace wdelta::testing
