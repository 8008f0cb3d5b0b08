// SPDX-License-Identifier: Apache-2.0
// Tensors in the memory of a CUDA device.
#pragma once

#include "c/tensor.hpp"

#include <memory>

namespace wdelta {

/// Throws unsupported, with the reason, where there is no such device or the tensor has gaps.
std::shared_ptr<const ByteReader> device_reader_of(const GivenTensor& tensor);
std::shared_ptr<const TensorTarget> device_target_of(const GivenTensor& tensor);

}  // namespace wdelta
