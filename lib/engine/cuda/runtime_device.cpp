// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime_error.hpp"
#include "engine/device.hpp"

namespace wdelta {

const DeviceAnswer& cuda_device() {
  static const DeviceAnswer answer = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) return DeviceAnswer{nullptr, reason_without_device(status)};
    return DeviceAnswer{nullptr, "its kernels are still to come"};
  }();
  return answer;
}

DeviceAnswer cuda_device_holding(const void*) { return cuda_device(); }

}  // namespace wdelta
