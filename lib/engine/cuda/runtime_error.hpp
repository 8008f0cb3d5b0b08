// SPDX-License-Identifier: Apache-2.0
// What the CUDA runtime answers, as errors of ours.
#pragma once

#include <cuda_runtime_api.h>
#include <string>

namespace wdelta {

/// Throws Error(local) about `device` unless `status` is success; `what` was asked for: "copy to the device".
void check_cuda(cudaError_t status, const std::string& device, const char* what);

/// Why there is no device to be used, for a status of cudaGetDeviceCount().
std::string reason_without_device(cudaError_t status);

/// "13.0" for 13000.
std::string cuda_version_text(int version);

}  // namespace wdelta
