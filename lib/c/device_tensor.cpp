// SPDX-License-Identifier: Apache-2.0
#include "c/device_tensor.hpp"

#include "base/error.hpp"
#include "engine/device.hpp"

#include <fmt/format.h>
#include <mutex>

namespace wdelta {

namespace {

// A tensor on a device and its queue, which one thread at a time may use: so reads and writes come after what the
// caller has put there, and before what it puts there next.
class OnDevice {
 public:
  OnDevice(const GivenTensor& tensor, Device& device) : tensor_(tensor), stream_(device.stream_of(tensor.stream)) {}

  const GivenTensor& tensor() const { return tensor_; }
  void download(std::uint64_t offset, std::span<std::uint8_t> to) const {
    const std::lock_guard lock(mutex_);
    stream_->download(to.data(), tensor_.elements + offset, to.size());
    stream_->wait();
  }
  void upload(std::uint64_t offset, std::span<const std::uint8_t> from) const {
    const std::lock_guard lock(mutex_);
    stream_->upload(tensor_.elements + offset, from.data(), from.size());
    stream_->wait();
  }

 private:
  GivenTensor tensor_;
  mutable std::mutex mutex_;
  std::unique_ptr<DeviceStream> stream_;
};

class DeviceTensorReader final : public ByteReader {
 public:
  DeviceTensorReader(const GivenTensor& tensor, Device& device) : on_device_(tensor, device) {}

  std::uint64_t size_bytes() const override { return on_device_.tensor().size_bytes; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (!bytes.empty()) on_device_.download(offset, bytes);
  }
  const std::string& name() const override { return on_device_.tensor().shape.name; }

 private:
  OnDevice on_device_;
};

class DeviceTensorTarget final : public TensorTarget {
 public:
  DeviceTensorTarget(const GivenTensor& tensor, Device& device) : on_device_(tensor, device) {}

  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const override {
    if (!bytes.empty()) on_device_.upload(offset, bytes);
  }

 private:
  OnDevice on_device_;
};

Device& device_for(const GivenTensor& tensor) {
  const DeviceAnswer& answer = cuda_device();
  if (answer.device == nullptr) {
    throw Error(Fault::unsupported, tensor.shape.name,
                fmt::format("lies on a CUDA device, which cannot be used here: {}", answer.reason),
                "copy it to the host first");
  }
  if (tensor.strided) {
    throw Error(Fault::unsupported, tensor.shape.name, "lies on a CUDA device and has gaps or another order",
                "make it contiguous first");
  }
  return *answer.device;
}

}  // namespace

std::shared_ptr<const ByteReader> device_reader_of(const GivenTensor& tensor) {
  return std::make_shared<DeviceTensorReader>(tensor, device_for(tensor));
}

std::shared_ptr<const TensorTarget> device_target_of(const GivenTensor& tensor) {
  return std::make_shared<DeviceTensorTarget>(tensor, device_for(tensor));
}

}  // namespace wdelta
