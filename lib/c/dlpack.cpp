// SPDX-License-Identifier: Apache-2.0
#include "c/dlpack.hpp"

#include "base/error.hpp"
#include "checkpoint/dtype.hpp"

#include <fmt/format.h>
#include <string_view>

// The binary interface, as its documentation has it.
namespace wdelta {

struct DlDevice {
  std::int32_t type;
  std::int32_t index;
};
struct DlDtype {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* elements;
  DlDevice device;
  std::int32_t dimensions;
  DlDtype dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // null: row-major without gaps
  std::uint64_t byte_offset;
};

}  // namespace wdelta

extern "C" {
struct DLManagedTensor {
  wdelta::DlTensor tensor;
  void* owner;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* owner;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  wdelta::DlTensor tensor;
};
}

namespace wdelta {

namespace {

struct DlName {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  const char* dtype;
};
// What safetensors calls them. Of floats narrower than 16 bits each has a code of its own.
constexpr DlName k_names[] = {
    {0, 8, 1, "I8"},       {0, 16, 1, "I16"},         {0, 32, 1, "I32"},     {0, 64, 1, "I64"},
    {1, 8, 1, "U8"},       {1, 16, 1, "U16"},         {1, 32, 1, "U32"},     {1, 64, 1, "U64"},
    {2, 16, 1, "F16"},     {2, 32, 1, "F32"},         {2, 64, 1, "F64"},     {4, 16, 1, "BF16"},
    {5, 64, 1, "C64"},     {6, 8, 1, "BOOL"},         {10, 8, 1, "F8_E4M3"}, {11, 8, 1, "F8_E4M3FNUZ"},
    {12, 8, 1, "F8_E5M2"}, {13, 8, 1, "F8_E5M2FNUZ"}, {14, 8, 1, "F8_E8M0"},
};

// Host memory whichever way it was pinned, and CUDA devices.
constexpr std::int32_t k_cpu = 1;
constexpr std::int32_t k_cuda = 2;
constexpr std::int32_t k_cuda_host = 3;
constexpr std::int32_t k_rocm_host = 11;
constexpr std::int32_t k_cuda_managed = 13;

const char* dtype_of(const char* name, const char* wanted, const DlDtype& dtype) {
  if (wanted != nullptr) {
    const Dtype* known = dtype_named(wanted);
    if (known != nullptr && known->bits != std::uint32_t{dtype.bits} * dtype.lanes) {
      throw Error(Fault::usage, name,
                  fmt::format("cannot be seen as {}: its elements have {} bits", wanted,
                              std::uint32_t{dtype.bits} * dtype.lanes));
    }
    return wanted;
  }
  for (const DlName& known : k_names) {
    if (known.code == dtype.code && known.bits == dtype.bits && known.lanes == dtype.lanes) return known.dtype;
  }
  throw Error(Fault::unsupported, name,
              fmt::format("has a dtype of DLPack (code {}, {} bits, {} lanes) that safetensors has no name for",
                          dtype.code, dtype.bits, dtype.lanes),
              "give the name of one that is as wide");
}

wdelta_tensor tensor_of(const char* name, const char* dtype, const DlTensor& given) {
  wdelta_tensor tensor = WDELTA_TENSOR_INIT;
  tensor.name = name;
  const char* const shown_name = name == nullptr ? "tensor" : name;
  tensor.dtype = dtype_of(shown_name, dtype, given.dtype);
  if (given.dimensions < 0) throw Error(Fault::usage, shown_name, "has less than no dimensions");
  tensor.dimensions = static_cast<std::uint32_t>(given.dimensions);
  tensor.shape = given.shape;
  tensor.strides = given.strides;
  tensor.elements =
      given.elements == nullptr ? nullptr : static_cast<std::uint8_t*>(given.elements) + given.byte_offset;
  switch (given.device.type) {
    case k_cpu:
    case k_cuda_host:
    case k_rocm_host:
    case k_cuda_managed:
      tensor.device = WDELTA_HOST;
      break;
    case k_cuda:
      tensor.device = WDELTA_CUDA;
      tensor.device_index = given.device.index;
      break;
    default:
      throw Error(Fault::unsupported, shown_name,
                  fmt::format("lies on a device of DLPack's type {}", given.device.type), "copy it to the host first");
  }
  return tensor;
}

template <typename Managed>
DlpackTensor taken_over(const char* name, const char* dtype, Managed* given) {
  return {tensor_of(name, dtype, given->tensor), [given] {
            if (given->deleter != nullptr) given->deleter(given);
          }};
}

}  // namespace

DlpackTensor from_dlpack(const char* name, const char* dtype, DLManagedTensor* given) {
  return taken_over(name, dtype, given);
}

DlpackTensor from_dlpack(const char* name, const char* dtype, DLManagedTensorVersioned* given) {
  if (given->major != 1) {
    throw Error(Fault::unsupported, name == nullptr ? "tensor" : name,
                fmt::format("is of version {}.{} of DLPack; this library knows version 1", given->major, given->minor));
  }
  constexpr std::uint64_t k_padded_to_bytes = 4;  // DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
  if ((given->flags & k_padded_to_bytes) != 0 && given->tensor.dtype.bits < 8) {
    throw Error(Fault::unsupported, name == nullptr ? "tensor" : name,
                fmt::format("has a byte for each of its elements of {} bits", given->tensor.dtype.bits),
                "pack them: safetensors has no gaps");
  }
  return taken_over(name, dtype, given);
}

}  // namespace wdelta
