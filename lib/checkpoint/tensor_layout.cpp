// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_layout.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/path.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <tuple>

namespace wdelta {

namespace {

// As safetensors' own writer orders them, widest first, so that every tensor lies at a multiple of its elements' width.
constexpr std::string_view k_order[] = {
    "U64",         "I64",         "F64",     "C64",     "F32",     "U32", "I32", "BF16",    "F16",     "U16", "I16",
    "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8",  "U8",  "F6_E3M2", "F6_E2M3", "F4",  "BOOL"};

std::ptrdiff_t rank_of(const Dtype& dtype) { return std::ranges::find(k_order, dtype.name) - std::begin(k_order); }

void require_names(std::span<const TensorShape> tensors, std::span<const std::size_t> by_name) {
  const TensorShape* previous = nullptr;
  for (const std::size_t index : by_name) {
    const TensorShape& tensor = tensors[index];
    if (tensor.name.empty()) throw Error(Fault::usage, "tensor", "has no name");
    if (tensor.name == "__metadata__") throw Error(Fault::usage, tensor.name, "is no name for a tensor");
    if (!is_utf8(tensor.name)) throw Error(Fault::usage, "tensor", "has a name that is not UTF-8");
    if (previous != nullptr && previous->name == tensor.name)
      throw Error(Fault::usage, tensor.name, "there are two tensors of that name in one file");
    previous = &tensor;
  }
}

FileLayout lay_out_file(std::string path, std::span<const TensorShape> tensors, std::vector<std::size_t> chosen,
                        const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(chosen, {}, [&](std::size_t index) {
    return std::tuple(rank_of(*tensors[index].dtype), std::string_view(tensors[index].name));
  });
  FileLayout file;
  file.path = std::move(path);
  // Written member by member: a document of many thousands would be slow to build.
  std::string text = "{";
  if (!metadata.empty()) {
    Json entries = Json::object();
    for (const auto& [key, value] : metadata) entries[key] = value;
    text += "\"__metadata__\":" + entries.dump() + ",";
  }
  std::uint64_t end = 0;
  for (const std::size_t index : chosen) {
    const TensorShape& tensor = tensors[index];
    const std::uint64_t begin = end;
    end += size_bytes_of(tensor);
    file.parts.push_back({index, begin});
    text += Json(tensor.name).dump() + ":{\"dtype\":\"" + std::string(tensor.dtype->name) +
            "\",\"shape\":" + Json(tensor.shape).dump() + ",\"data_offsets\":[" + std::to_string(begin) + "," +
            std::to_string(end) + "]},";
  }
  if (text.ends_with(',')) text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > SafetensorsHeader::k_longest_header) {
    throw Error(Fault::usage, file.path,
                fmt::format("would have a header of {} bytes, which no reader takes", text.size()),
                "put fewer tensors into a file");
  }
  for (int shift = 0; shift < 64; shift += 8) {
    file.front.push_back(static_cast<std::uint8_t>(std::uint64_t{text.size()} >> shift));
  }
  file.front.insert(file.front.end(), text.begin(), text.end());
  for (FileLayout::Part& part : file.parts) part.begin += file.front.size();
  file.size_bytes = file.front.size() + end;
  return file;
}

std::string index_text(std::span<const TensorShape> tensors, const std::vector<FileLayout>& files) {
  std::map<std::string_view, std::string_view> places;
  std::uint64_t total_bytes = 0;
  for (const FileLayout& file : files) {
    const std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
    for (const FileLayout::Part& part : file.parts) {
      places.emplace(tensors[part.tensor].name, name);
      total_bytes += size_bytes_of(tensors[part.tensor]);
    }
  }
  const auto ascii = [](std::string_view text) { return Json(text).dump(-1, ' ', true); };
  std::string text =
      fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total_bytes);
  for (const auto& [tensor, file] : places) {
    text += std::string(text.ends_with('{') ? "" : ",") + "\n    " + ascii(tensor) + ": " + ascii(file);
  }
  return text + "\n  }\n}\n";
}

}  // namespace

std::uint64_t size_bytes_of(const TensorShape& tensor) {
  constexpr std::uint64_t k_most_bits = std::uint64_t{1} << 62;
  const auto bits = bits_of(*tensor.dtype, tensor.shape);
  if (!bits || *bits > k_most_bits)
    throw Error(Fault::usage, tensor.name, "has a shape of more elements than can be counted");
  if (*bits % 8 != 0) throw Error(Fault::usage, tensor.name, "has a shape that is no whole number of bytes");
  return *bits / 8;
}

TensorLayout lay_out(std::span<const TensorShape> tensors, const LayoutChoice& choice) {
  constexpr std::string_view k_suffix = ".safetensors";
  if (const char* reason = why_not_a_place(choice.path))
    throw Error(Fault::usage, choice.path, fmt::format("cannot be the place of a file: it {}", reason));
  if (!is_weights(choice.path)) throw Error(Fault::usage, choice.path, "does not end in .safetensors");
  std::vector<std::size_t> by_name(tensors.size());
  for (std::size_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
  std::ranges::sort(by_name, {}, [&](std::size_t index) { return std::string_view(tensors[index].name); });
  require_names(tensors, by_name);

  std::vector<std::vector<std::size_t>> shards;
  std::uint64_t room_bytes = 0;
  for (const std::size_t index : by_name) {
    const std::uint64_t size_bytes = size_bytes_of(tensors[index]);
    if (shards.empty() || size_bytes > room_bytes) {
      shards.emplace_back();
      room_bytes = std::max(choice.largest_shard_bytes, size_bytes);
    }
    room_bytes -= size_bytes;
    shards.back().push_back(index);
  }
  TensorLayout layout;
  const std::string stem = choice.path.substr(0, choice.path.size() - k_suffix.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::string path =
        shards.size() == 1 ? choice.path : fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, shards.size(), k_suffix);
    layout.files.push_back(lay_out_file(std::move(path), tensors, std::move(shards[i]), choice.metadata));
  }
  if (layout.files.size() > 1) layout.index = {choice.path + ".index.json", index_text(tensors, layout.files)};
  return layout;
}

}  // namespace wdelta
