// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime_error.hpp"

#include "base/error.hpp"

namespace wdelta {
namespace {

const char* hint_for(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "free memory on the device (nvidia-smi shows who holds it), or take an engine of the processor (--engine "
             "auto)";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      return "bring the NVIDIA driver up to date, or take an engine of the processor (--engine auto)";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "this build has no code for the device: build it where the device is, or take an engine of the processor "
             "(--engine auto)";
    case cudaErrorDevicesUnavailable:
      return "another program has the device for itself: end it, or take an engine of the processor (--engine auto)";
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
      return "a pointer or stream of the caller that is not the device's does this; if there is none, it is a bug: "
             "please report it";
    default:
      // A device that was lost, or fell off the bus, answers in many ways, and nothing works on it after that.
      return "see what nvidia-smi and the kernel's log say of the device, start again, or take an engine of the "
             "processor (--engine auto)";
  }
}

}  // namespace

void check_cuda(cudaError_t status, const std::string& device, const char* what) {
  if (status == cudaSuccess) return;
  // The runtime keeps the last error for whoever asks next.
  static_cast<void>(cudaGetLastError());
  throw Error(Fault::local, device,
              std::string(what) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")",
              hint_for(status));
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string reason_without_device(cudaError_t status) {
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (driver == 0) return "no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver is too old: it knows CUDA " + cuda_version_text(driver) + ", needed is " +
           cuda_version_text(CUDART_VERSION);
  }
  if (status == cudaErrorNoDevice) return "no device, driver " + cuda_version_text(driver);
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + "), driver " +
         cuda_version_text(driver);
}

}  // namespace wdelta
