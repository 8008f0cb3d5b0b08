// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {

constexpr const char* k_cut_hint = "is it still being written?";

std::uint64_t header_length(std::span<const std::uint8_t> first_bytes) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | first_bytes[static_cast<std::size_t>(i)];
  return length;
}

[[noreturn]] void refuse(const std::string& name, const std::string& tensor, const std::string& what) {
  throw Error(Fault::corrupt, name, fmt::format("tensor {:?}: {}", tensor, what));
}

Tensor read_tensor(const std::string& tensor_name, const ParsedJson& value, std::uint64_t front_bytes,
                   std::uint64_t file_size_bytes, const std::string& name) {
  Tensor tensor;
  tensor.name = tensor_name;
  const auto field = [&](const char* key) -> const ParsedJson& {
    if (!value.is_object() || !value.contains(key)) refuse(name, tensor_name, fmt::format("has no {:?}", key));
    return value[key];
  };
  const ParsedJson& dtype = field("dtype");
  if (dtype.is_string()) tensor.dtype = dtype_named(dtype.get_ref<const std::string&>());
  if (tensor.dtype == nullptr)
    refuse(name, tensor_name, fmt::format("dtype {} is none that safetensors has", dtype.dump()));

  const ParsedJson& shape = field("shape");
  if (!shape.is_array()) refuse(name, tensor_name, "shape is not an array");
  // Frameworks have 64 at most; each takes more memory than it has text.
  constexpr std::size_t k_most_extents = 255;
  if (shape.size() > k_most_extents) {
    refuse(name, tensor_name, fmt::format("shape has {} extents, at most {} expected", shape.size(), k_most_extents));
  }
  for (const ParsedJson& extent : shape) {
    if (!extent.is_number_unsigned()) refuse(name, tensor_name, "shape holds something that is no size");
    tensor.shape.push_back(extent.get<std::uint64_t>());
  }
  const auto bits = bits_of(*tensor.dtype, tensor.shape);
  if (!bits) refuse(name, tensor_name, "shape is too large");

  const ParsedJson& offsets = field("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    refuse(name, tensor_name, "data_offsets are not two offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  const std::uint64_t room = file_size_bytes - front_bytes;
  if (begin > end) refuse(name, tensor_name, "data_offsets run backwards");
  if (end > room) {
    throw Error(Fault::corrupt, name,
                fmt::format("tensor {:?}: ends at byte {}, the file has {} behind its header", tensor_name, end, room),
                k_cut_hint);
  }
  if (*bits % 8 != 0 || end - begin != *bits / 8) {
    refuse(name, tensor_name, fmt::format("has {} bytes, dtype and shape ask for {} bits", end - begin, *bits));
  }
  tensor.begin = front_bytes + begin;
  tensor.end = front_bytes + end;
  return tensor;
}

}  // namespace

std::vector<std::uint8_t> SafetensorsHeader::read_front(const ByteReader& file) {
  const std::uint64_t size = file.size_bytes();
  if (size < 8)
    throw Error(Fault::corrupt, file.name(), fmt::format("has {} bytes, not even a header", size), k_cut_hint);
  std::vector<std::uint8_t> front(8);
  file.read_at(0, front);
  const std::uint64_t length = header_length(front);
  if (length > k_longest_header) {
    throw Error(Fault::corrupt, file.name(),
                fmt::format("header of {} bytes announced, at most {} allowed", length, k_longest_header));
  }
  if (length > size - 8) {
    throw Error(Fault::corrupt, file.name(),
                fmt::format("header of {} bytes announced, the file has {} more", length, size - 8), k_cut_hint);
  }
  front.resize(8 + length);
  file.read_at(8, std::span(front).subspan(8));
  return front;
}

SafetensorsHeader SafetensorsHeader::read(const ByteReader& file) {
  return parse(read_front(file), file.size_bytes(), file.name());
}

std::shared_ptr<const SafetensorsHeader> SafetensorsHeader::read_like(const ByteReader& file,
                                                                      std::shared_ptr<const SafetensorsHeader> other) {
  std::vector<std::uint8_t> front = read_front(file);
  // Tensors fill a file to its end.
  const auto size_of = [](const SafetensorsHeader& header) {
    return header.tensors_.empty() ? header.front_.size() : header.tensors_.back().end;
  };
  if (other != nullptr && front == other->front_ && file.size_bytes() == size_of(*other)) return other;
  return std::make_shared<SafetensorsHeader>(parse(std::move(front), file.size_bytes(), file.name()));
}

SafetensorsHeader SafetensorsHeader::parse(std::vector<std::uint8_t> front, std::uint64_t file_size_bytes,
                                           const std::string& name) {
  if (front.size() < 9 || front.size() > file_size_bytes || header_length(front) != front.size() - 8 ||
      front[8] != '{') {
    throw Error(Fault::corrupt, name, "does not begin with a safetensors header");
  }
  SafetensorsHeader header;
  header.front_ = std::move(front);
  const std::string_view text(reinterpret_cast<const char*>(header.front_.data()) + 8, header.front_.size() - 8);
  parse_members(text, name, [&](const std::string& key, ParsedJson&& value) {
    if (key != "__metadata__") {
      header.tensors_.push_back(read_tensor(key, value, header.front_.size(), file_size_bytes, name));
      return;
    }
    if (value.is_null()) return;  // as the format's own reader takes it
    if (!value.is_object()) throw Error(Fault::corrupt, name, "__metadata__ is not an object");
    for (const auto& [meta_key, meta_value] : value.items()) {
      if (!meta_value.is_string()) {
        throw Error(Fault::corrupt, name, fmt::format("__metadata__ {:?} is not a string", meta_key));
      }
      header.metadata_.emplace_back(meta_key, meta_value.get<std::string>());
    }
  });

  // By begin, then end: an empty tensor comes before the one that begins where it lies; of several such by name.
  std::ranges::sort(header.tensors_, {}, [](const Tensor& tensor) {
    return std::tuple(tensor.begin, tensor.end, std::string_view(tensor.name));
  });
  std::uint64_t at = header.front_.size();
  for (std::size_t i = 0; i < header.tensors_.size(); ++i) {
    const Tensor& tensor = header.tensors_[i];
    if (tensor.begin != at) {
      refuse(name, tensor.name,
             fmt::format("begins at byte {} of the file, {} expected: a gap or an overlap", tensor.begin, at));
    }
    at = tensor.end;
    header.by_name_.emplace_hint(header.by_name_.end(), tensor.name, i);  // most writers sort them
  }
  if (at != file_size_bytes) {
    throw Error(Fault::corrupt, name, fmt::format("tensors end at byte {}, the file has {}", at, file_size_bytes));
  }
  return header;
}

SafetensorsHeader SafetensorsHeader::of_bytes(std::uint64_t file_size_bytes, const Dtype& dtype) {
  const std::uint64_t elements = file_size_bytes / dtype.width_bytes;
  const std::uint64_t body_end = elements * dtype.width_bytes;
  SafetensorsHeader header;
  header.tensors_ = {{"body", &dtype, {elements}, 0, body_end},
                     {"tail", dtype_named("U8"), {file_size_bytes - body_end}, body_end, file_size_bytes}};
  header.by_name_ = {{"body", 0}, {"tail", 1}};
  return header;
}

bool SafetensorsHeader::is_laid_out_like(const SafetensorsHeader& other) const {
  return std::ranges::equal(tensors_, other.tensors_, [](const Tensor& a, const Tensor& b) {
    return a.name == b.name && a.dtype == b.dtype && a.begin == b.begin && a.end == b.end;
  });
}

bool is_cut_short(const ByteReader& file) try {
  const std::uint64_t size = file.size_bytes();
  if (size < 8) return true;
  std::vector<std::uint8_t> front(8);
  file.read_at(0, front);
  const std::uint64_t length = header_length(front);
  if (length > SafetensorsHeader::k_longest_header) return false;
  if (length > size - 8) return true;
  front.resize(length);
  file.read_at(8, front);
  std::uint64_t end = 0;
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  parse_members(text, file.name(), [&](const std::string&, ParsedJson&& value) {
    if (!value.is_object() || !value.contains("data_offsets")) return;
    const ParsedJson& offsets = value["data_offsets"];
    if (offsets.is_array() && offsets.size() == 2 && offsets[1].is_number_unsigned())
      end = std::max(end, offsets[1].get<std::uint64_t>());
  });
  return end > size - 8 - length;
} catch (const Error&) {
  return false;
}

const Tensor* SafetensorsHeader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace wdelta
