// SPDX-License-Identifier: Apache-2.0
#include "c/memory_copy.hpp"

#include "c/stretches.hpp"
#include "engine/device_readable.hpp"
#include "engine/device_streams.hpp"

#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace wdelta {

namespace {

class HostBytes final : public MemoryCopy {
 public:
  HostBytes(const ByteReader& source, const HostCopy& how, const Execution& execution)
      : memories_(how.memories),
        device_(how.from),
        memory_(memories_ == nullptr ? std::make_unique<HostMemory>(source.size_bytes())
                                     : memories_->take(source.size_bytes())),
        name_(source.name()) {
    overwrite(source, execution);
  }
  ~HostBytes() override {
    if (memories_ != nullptr) memories_->give_back(std::move(memory_));
  }

  void overwrite(const ByteReader& source, const Execution& execution) override {
    // A device that copies by itself needs no threads.
    if (device_ != nullptr && memory_->is_pinned_for(*device_, execution)) return source.read_at(0, bytes());
    for_each_stretch(bytes().size(), execution, [&] {
      return [&](std::size_t begin, std::size_t size) { source.read_at(begin, bytes().subspan(begin, size)); };
    });
  }
  std::uint64_t size_bytes() const override { return bytes().size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (!bytes.empty()) std::memcpy(bytes.data(), this->bytes().data() + offset, bytes.size());
  }
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  std::span<std::uint8_t> bytes() const { return memory_->bytes(); }

  std::shared_ptr<HostMemories> memories_;
  Device* device_;
  std::unique_ptr<HostMemory> memory_;
  std::string name_;
};

class DeviceBytes final : public MemoryCopy, public DeviceReadable {
 public:
  DeviceBytes(const ByteReader& source, Device& device, const Execution& execution)
      : device_(&device), size_bytes_(source.size_bytes()), name_(source.name()) {
    if (size_bytes_ > 0) memory_ = device.allocate(static_cast<std::size_t>(size_bytes_));
    overwrite(source, execution);
  }

  void overwrite(const ByteReader& source, const Execution& execution) override {
    if (size_bytes_ == 0) return;
    const auto size_bytes = static_cast<std::size_t>(size_bytes_);
    if (const DeviceReadable* const readable = readable_on(*device_, source)) {
      device_->streams().with_one(
          [&](DeviceStream& stream) { readable->read_to_device(0, place(0), size_bytes, stream); });
      return;
    }
    for_each_stretch(size_bytes, execution, [&] {
      return [&](std::size_t begin, std::size_t size) {
        device_->streams().upload(place(begin), size, [&](std::size_t offset, std::span<std::uint8_t> piece) {
          source.read_at(begin + offset, piece);
        });
      };
    });
  }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (!bytes.empty()) device_->streams().download(bytes.data(), place(offset), bytes.size());
  }
  const std::string& name() const override { return name_; }
  bool is_on(const Device& device) const override { return &device == device_; }
  void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const override {
    if (size_bytes > 0) stream.copy(to, place(offset), size_bytes);
  }

 private:
  std::uint8_t* place(std::uint64_t offset) const { return static_cast<std::uint8_t*>(memory_->begin()) + offset; }

  Device* device_;
  std::uint64_t size_bytes_;
  std::string name_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace

std::shared_ptr<MemoryCopy> keep_on_host(const ByteReader& source, const Execution& execution, const HostCopy& how) {
  return std::make_shared<HostBytes>(source, how, execution);
}

std::shared_ptr<MemoryCopy> keep_on_device(const ByteReader& source, Device& device, const Execution& execution) {
  return std::make_shared<DeviceBytes>(source, device, execution);
}

}  // namespace wdelta
