// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime_queue.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <string>

namespace wdelta::cuda {

CurrentDevice::CurrentDevice(const RuntimePlace& place) {
  int current = 0;
  check_cuda(cudaGetDevice(&current), place.name, "which device is in use");
  if (current == place.ordinal) return;
  check_cuda(cudaSetDevice(place.ordinal), place.name, "use of the device");
  before_ = current;
}

CurrentDevice::CurrentDevice(const RuntimePlace& place, std::nothrow_t) noexcept {
  int current = 0;
  if (cudaGetDevice(&current) != cudaSuccess || current == place.ordinal) return;
  if (cudaSetDevice(place.ordinal) == cudaSuccess) before_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
}

RuntimeQueue::RuntimeQueue(const RuntimePlace& place) : place_(&place), is_own_(true) {
  const CurrentDevice current(place);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), place.name, "a stream");
}

RuntimeQueue::RuntimeQueue(const RuntimePlace& place, cudaStream_t stream) : place_(&place), stream_(stream) {}

RuntimeQueue::~RuntimeQueue() {
  // Nobody is left to hear of failures, and memory that is still written to may be freed next. The NULL stream is the
  // current device's.
  const CurrentDevice current(*place_, std::nothrow);
  static_cast<void>(cudaStreamSynchronize(stream_));
  if (is_own_) static_cast<void>(cudaStreamDestroy(stream_));
}

void RuntimeQueue::upload(void* to, const void* from, std::size_t size_bytes) {
  const CurrentDevice current(*place_);
  check_cuda(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, stream_), place_->name,
             "copy to the device");
}

void RuntimeQueue::download(void* to, const void* from, std::size_t size_bytes) {
  const CurrentDevice current(*place_);
  check_cuda(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToHost, stream_), place_->name,
             "copy from the device");
}

void RuntimeQueue::copy(void* to, const void* from, std::size_t size_bytes) {
  const CurrentDevice current(*place_);
  check_cuda(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream_), place_->name,
             "copy on the device");
}

void RuntimeQueue::fill_zeros(void* to, std::size_t size_bytes) {
  const CurrentDevice current(*place_);
  check_cuda(cudaMemsetAsync(to, 0, size_bytes, stream_), place_->name, "zeros on the device");
}

void RuntimeQueue::wait() {
  const CurrentDevice current(*place_);
  check_cuda(cudaStreamSynchronize(stream_), place_->name, "work on the device");
}

RuntimeMemory::RuntimeMemory(const RuntimePlace& place, RuntimeMemoryKind kind, std::size_t size_bytes)
    : kind_(kind), size_bytes_(size_bytes) {
  const CurrentDevice current(place);
  // In whole words, as kernels read them; and something even where nothing is wanted.
  const std::size_t whole_bytes = std::max<std::size_t>((size_bytes + 255) / 256 * 256, 256);
  if (kind == RuntimeMemoryKind::device) {
    check_cuda(cudaMalloc(&begin_, whole_bytes), place.name,
               (std::to_string(size_bytes) + " bytes of device memory").c_str());
  } else {
    const std::string what = std::to_string(size_bytes) + " bytes of pinned memory";
    const cudaError_t status = cudaHostAlloc(&begin_, whole_bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw Error(Fault::local, place.name, what + ": " + cudaGetErrorString(status),
                  "free memory of this machine, or raise its limit on locked memory (ulimit -l)");
    }
    check_cuda(status, place.name, what.c_str());
  }
}

RuntimeMemory::~RuntimeMemory() {
  // After the device was lost nothing can be freed; the driver does it when the program ends.
  static_cast<void>(kind_ == RuntimeMemoryKind::device ? cudaFree(begin_) : cudaFreeHost(begin_));
}

}  // namespace wdelta::cuda
