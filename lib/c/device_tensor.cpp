// SPDX-License-Identifier: Apache-2.0
#include "c/device_tensor.hpp"

#include "base/error.hpp"
#include "engine/device_readable.hpp"
#include "engine/device_streams.hpp"

#include <fmt/format.h>
#include <mutex>
#include <vector>

namespace wdelta {

namespace {

class DeviceTensorReader final : public ByteReader, public DeviceReadable {
 public:
  DeviceTensorReader(const GivenTensor& tensor, Device& device) : tensor_(tensor), device_(&device) {
    device.stream_of(tensor.stream)->wait();
  }

  std::uint64_t size_bytes() const override { return tensor_.size_bytes; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    device_->streams().download(bytes.data(), tensor_.elements + offset, bytes.size());
  }
  const std::string& name() const override { return tensor_.shape.name; }
  bool is_on(const Device& device) const override { return &device == device_; }
  void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const override {
    stream.copy(to, tensor_.elements + offset, size_bytes);
  }

 private:
  GivenTensor tensor_;
  Device* device_;
};

/// A tensor with gaps or in another order. What it spans is brought home once, when it is first read, and stays there
/// as long as this lives: elements that lie apart cannot be copied one by one in any reasonable time.
class StridedDeviceReader final : public ByteReader {
 public:
  StridedDeviceReader(const GivenTensor& tensor, Device& device) : tensor_(tensor), device_(&device) {
    device.stream_of(tensor.stream)->wait();
  }

  std::uint64_t size_bytes() const override { return tensor_.size_bytes; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    const std::int64_t lowest = tensor_.strided->lowest_bytes();
    std::call_once(is_home_, [&] {
      span_.resize(static_cast<std::size_t>(tensor_.strided->highest_bytes() - lowest));
      device_->streams().download(span_.data(), tensor_.elements + lowest, span_.size());
    });
    if (!bytes.empty()) tensor_.strided->gather(span_.data() - lowest, offset, bytes);
  }
  const std::string& name() const override { return tensor_.shape.name; }

 private:
  GivenTensor tensor_;
  Device* device_;
  mutable std::once_flag is_home_;
  mutable std::vector<std::uint8_t> span_;
};

class DeviceTensorTarget final : public TensorTarget {
 public:
  DeviceTensorTarget(const GivenTensor& tensor, Device& device) : tensor_(tensor), device_(&device) {
    device.stream_of(tensor.stream)->wait();
  }

  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const override {
    if (!tensor_.strided) return device_->streams().upload(tensor_.elements + offset, bytes.data(), bytes.size());
    if (bytes.empty()) return;
    device_->streams().with_one([&](DeviceStream& stream) {
      // One by one: what lies in the gaps is somebody else's.
      const std::uint8_t* from = bytes.data();
      tensor_.strided->for_each_dense(offset, bytes.size(), [&](std::int64_t place, std::uint64_t size) {
        stream.upload(tensor_.elements + place, from, static_cast<std::size_t>(size));
        from += size;
      });
    });
  }
  Device* device() const override { return device_; }

 private:
  GivenTensor tensor_;
  Device* device_;
};

}  // namespace

Device& device_of(const GivenTensor& tensor) {
  const DeviceAnswer answer = cuda_device_holding(tensor.elements);
  if (answer.device == nullptr) {
    throw Error(Fault::unsupported, tensor.shape.name,
                fmt::format("is said to lie on a CUDA device, which cannot be used here: {}", answer.reason),
                "copy it to the host first");
  }
  return *answer.device;
}

std::shared_ptr<const ByteReader> device_reader_of(const GivenTensor& tensor, Device& device) {
  if (tensor.strided) return std::make_shared<StridedDeviceReader>(tensor, device);
  return std::make_shared<DeviceTensorReader>(tensor, device);
}

std::shared_ptr<const TensorTarget> device_target_of(const GivenTensor& tensor, Device& device) {
  return std::make_shared<DeviceTensorTarget>(tensor, device);
}

}  // namespace wdelta
