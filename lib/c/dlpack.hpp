// SPDX-License-Identifier: Apache-2.0
// Tensors as frameworks hand them to each other: DLPack, https://dmlc.github.io/dlpack/latest/c_api.html.
#pragma once

#include "include/wdelta.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wdelta {

/// A DLPack tensor as a wdelta_tensor. `tensor` points into the rest, and into the memory that was handed over.
struct DlpackTensor {
  wdelta_tensor tensor = WDELTA_TENSOR_INIT;
  std::function<void()> release;  ///< gives it back to whom it came from
};

/// `dtype`: null, or what safetensors is to call elements of that width. Throws unsupported for a dtype, a device or a
/// version that is not known.
DlpackTensor from_dlpack(const char* name, const char* dtype, DLManagedTensor* given);
DlpackTensor from_dlpack(const char* name, const char* dtype, DLManagedTensorVersioned* given);

}  // namespace wdelta
