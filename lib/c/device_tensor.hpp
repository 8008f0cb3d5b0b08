// SPDX-License-Identifier: Apache-2.0
// Tensors in the memory of a CUDA device.
#pragma once

#include "c/tensor.hpp"
#include "engine/device.hpp"

#include <memory>

namespace wdelta {

/// The device that holds a tensor. Throws unsupported, with the reason, where it cannot be used, or the tensor has
/// gaps.
Device& device_of(const GivenTensor& tensor);

/// Waits for what the tensor's stream was given so far. What it returns is DeviceReadable.
std::shared_ptr<const ByteReader> device_reader_of(const GivenTensor& tensor, Device& device);
/// What is written is there for what the tensor's stream is given later.
std::shared_ptr<const TensorTarget> device_target_of(const GivenTensor& tensor, Device& device);

}  // namespace wdelta
