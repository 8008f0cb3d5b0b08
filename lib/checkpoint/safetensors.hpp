// SPDX-License-Identifier: Apache-2.0
// The safetensors container, https://github.com/huggingface/safetensors: 8 bytes of header length, a JSON header, the
// tensors' bytes one behind the other.
#pragma once

#include "base/reader.hpp"
#include "checkpoint/dtype.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
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
  /// Whether each element of one has its counterpart in the other; the shape they are seen in may differ.
  bool has_elements_like(const Tensor& other) const {
    return dtype == other.dtype && size_bytes() == other.size_bytes();
  }
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
  /// The same of a file that most likely has the header of another one: where it begins with the same bytes and has the
  /// same size, that is what is returned: to compare them takes next to no time, to parse a header some for each
  /// tensor.
  static std::shared_ptr<const SafetensorsHeader> read_like(const ByteReader& file,
                                                            std::shared_ptr<const SafetensorsHeader> other);
  /// The same from the front of a file, given its whole size.
  static SafetensorsHeader parse(std::vector<std::uint8_t> front, std::uint64_t file_size_bytes,
                                 const std::string& name);

  /// What stands in for a header when a file that is no safetensors file is seen as elements of `dtype`: no front, a
  /// tensor `body` with as many elements as fit and a tensor `tail` (U8) with the bytes that are left.
  static SafetensorsHeader of_bytes(std::uint64_t file_size_bytes, const Dtype& dtype);

  /// The bytes before the first tensor: length, JSON and padding.
  std::span<const std::uint8_t> front() const { return front_; }
  /// In the order of their bytes in the file.
  std::span<const Tensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const Tensor* find(const std::string& name) const;
  /// Whether the same tensors lie at the same offsets.
  bool is_laid_out_like(const SafetensorsHeader& other) const;
  /// The strings of `__metadata__`.
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  static std::vector<std::uint8_t> read_front(const ByteReader& file);

  std::vector<std::uint8_t> front_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

/// Whether a file is shorter than its own header says, or than any header is: most likely it is still being written.
bool is_cut_short(const ByteReader& file);

}  // namespace wdelta
