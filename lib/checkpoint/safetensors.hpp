// SPDX-License-Identifier: Apache-2.0
// The safetensors container, https://github.com/huggingface/safetensors: 8 bytes of header length, a JSON header, the
// tensors' bytes one behind the other.
#pragma once

#include "base/reader.hpp"
#include "checkpoint/dtype.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace wdelta {

struct Tensor {
  std::string name;
  const Dtype* dtype = nullptr;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< offset in the file of the first byte
  std::uint64_t end = 0;    ///< offset behind the last byte

  std::uint64_t size_bytes() const { return end - begin; }
  std::uint64_t element_count() const { return size_bytes() / dtype->width_bytes; }
  bool same_type_as(const Tensor& other) const { return dtype == other.dtype && shape == other.shape; }
};

/// The header of a safetensors file, checked: what is in a SafetensorsHeader holds.
class SafetensorsHeader {
 public:
  /// The longest header that is read; the limit of the reference implementation.
  static constexpr std::uint64_t k_longest_header = 100'000'000;

  /// Reads and checks the header. Throws corrupt, naming the file and the tensor, unless: the header is a JSON object
  /// of the described form, every dtype is known, every size is what dtype and shape ask for, and the tensors fill the
  /// file to its last byte without gaps or overlap. Allocates nothing that the file does not have bytes for.
  static SafetensorsHeader read(const ByteReader& file);
  /// The same from the front of a file, given its whole size.
  static SafetensorsHeader parse(std::vector<std::uint8_t> front, std::uint64_t file_size_bytes,
                                 const std::string& name);

  /// The bytes before the first tensor: length, JSON and padding.
  std::span<const std::uint8_t> front() const { return front_; }
  /// In the order of their bytes in the file.
  std::span<const Tensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const Tensor* find(const std::string& name) const;
  /// The strings of `__metadata__`.
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  std::vector<std::uint8_t> front_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace wdelta
