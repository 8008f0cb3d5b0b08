// SPDX-License-Identifier: Apache-2.0
// Tensors of a caller's, checked, and their bytes as a file has them: in row-major order without gaps.
#pragma once

#include "base/reader.hpp"
#include "c/strided.hpp"
#include "checkpoint/tensor_layout.hpp"
#include "engine/device.hpp"
#include "include/wdelta.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace wdelta {

/// What a wdelta_tensor says, checked as far as it can be without the memory it points to.
struct GivenTensor {
  TensorShape shape;
  std::uint64_t size_bytes = 0;
  std::optional<Strided> strided;  ///< nothing where the elements lie as a file has them
  std::uint8_t* elements = nullptr;
  std::int32_t device = WDELTA_HOST;
  std::int32_t device_index = 0;
  void* stream = nullptr;
  std::optional<std::string> file;
};

/// Throws usage, naming the tensor; unsupported for an unknown place.
GivenTensor given_tensor(const wdelta_tensor& tensor);

/// The bytes of a tensor where it lies; they are as steady as the caller keeps them. What is read of a device's memory
/// comes in the order of the tensor's stream. Throws unsupported where that memory cannot be read.
std::shared_ptr<const ByteReader> reader_of(const GivenTensor& tensor);

/// Where a tensor's bytes are put.
class TensorTarget {
 public:
  virtual ~TensorTarget() = default;
  /// Several threads may write ranges that do not overlap.
  virtual void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const = 0;

  /// The one that copies there; null on the host.
  virtual Device* device() const { return nullptr; }
};
/// Throws as reader_of() does, and usage where two elements lie in one place.
std::shared_ptr<const TensorTarget> target_of(const GivenTensor& tensor);

}  // namespace wdelta
