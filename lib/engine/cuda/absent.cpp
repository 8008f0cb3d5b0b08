// SPDX-License-Identifier: Apache-2.0
// Stands for runtime_device.cpp where there is no nvcc.
#include "engine/device.hpp"

namespace wdelta {

const DeviceAnswer& cuda_device() {
  static const DeviceAnswer answer = {nullptr, "not compiled in: built without nvcc, or with WDELTA_CUDA=OFF"};
  return answer;
}

DeviceAnswer cuda_device_holding(const void*) { return cuda_device(); }

}  // namespace wdelta
