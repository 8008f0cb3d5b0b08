// SPDX-License-Identifier: Apache-2.0
#include "c/tensor.hpp"

#include "base/error.hpp"
#include "c/device_tensor.hpp"

#include <cstring>
#include <fmt/format.h>

namespace wdelta {

namespace {

class HostReader final : public ByteReader {
 public:
  explicit HostReader(const GivenTensor& tensor) : tensor_(tensor) {}

  std::uint64_t size_bytes() const override { return tensor_.size_bytes; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (bytes.empty()) return;
    if (tensor_.strided) {
      tensor_.strided->gather(tensor_.elements, offset, bytes);
    } else {
      std::memcpy(bytes.data(), tensor_.elements + offset, bytes.size());
    }
  }
  const std::string& name() const override { return tensor_.shape.name; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  GivenTensor tensor_;
};

class HostTarget final : public TensorTarget {
 public:
  explicit HostTarget(const GivenTensor& tensor) : tensor_(tensor) {}

  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const override {
    if (bytes.empty()) return;
    if (tensor_.strided) {
      tensor_.strided->scatter(bytes, offset, tensor_.elements);
    } else {
      std::memcpy(tensor_.elements + offset, bytes.data(), bytes.size());
    }
  }

 private:
  GivenTensor tensor_;
};

}  // namespace

GivenTensor given_tensor(const wdelta_tensor& tensor) {
  constexpr std::uint32_t k_most_dimensions = 64;
  GivenTensor given;
  if (tensor.name == nullptr || *tensor.name == '\0') throw Error(Fault::usage, "tensor", "has no name");
  given.shape.name = tensor.name;
  const auto refuse = [&](const std::string& what) -> Error { return {Fault::usage, given.shape.name, what}; };
  if (tensor.dtype == nullptr) throw refuse("has no dtype");
  given.shape.dtype = dtype_named(tensor.dtype);
  if (given.shape.dtype == nullptr)
    throw refuse(fmt::format("has dtype {:?}, which safetensors has not", tensor.dtype));
  if (tensor.dimensions > k_most_dimensions)
    throw refuse(fmt::format("has {} dimensions; {} are the most", tensor.dimensions, k_most_dimensions));
  if (tensor.dimensions > 0 && tensor.shape == nullptr) throw refuse("has dimensions and no shape");
  for (std::uint32_t i = 0; i < tensor.dimensions; ++i) {
    if (tensor.shape[i] < 0) throw refuse("has a dimension of less than nothing");
    given.shape.shape.push_back(static_cast<std::uint64_t>(tensor.shape[i]));
  }
  given.size_bytes = size_bytes_of(given.shape);
  if (tensor.elements == nullptr && given.size_bytes > 0) throw refuse("has elements and no memory");
  given.elements = static_cast<std::uint8_t*>(tensor.elements);
  if (tensor.strides != nullptr && given.size_bytes > 0) {
    const std::size_t bits = given.shape.dtype->bits;
    const std::span strides(tensor.strides, tensor.dimensions);
    Strided strided(given.shape.shape, strides, bits < 8 ? 1 : bits / 8, tensor.name);
    if (!strided.is_dense()) {
      if (bits < 8) throw refuse(fmt::format("is of {}, which is narrower than a byte, and has gaps", tensor.dtype));
      given.strided = std::move(strided);
    }
  }
  if (tensor.device != WDELTA_HOST && tensor.device != WDELTA_CUDA) {
    throw Error(Fault::unsupported, given.shape.name, fmt::format("lies on a device of unknown kind {}", tensor.device),
                "WDELTA_HOST and WDELTA_CUDA are known");
  }
  given.device = tensor.device;
  given.device_index = tensor.device_index;
  given.stream = tensor.stream;
  if (tensor.file != nullptr) given.file = tensor.file;
  return given;
}

std::shared_ptr<const ByteReader> reader_of(const GivenTensor& tensor) {
  if (tensor.device == WDELTA_CUDA && tensor.size_bytes > 0) return device_reader_of(tensor, device_of(tensor));
  return std::make_shared<HostReader>(tensor);
}

std::shared_ptr<const TensorTarget> target_of(const GivenTensor& tensor) {
  if (tensor.strided && tensor.strided->may_overlap()) {
    throw Error(Fault::usage, tensor.shape.name, "has strides by which two elements may lie in one place",
                "fill one that has its own memory");
  }
  if (tensor.device == WDELTA_CUDA && tensor.size_bytes > 0) return device_target_of(tensor, device_of(tensor));
  return std::make_shared<HostTarget>(tensor);
}

}  // namespace wdelta
