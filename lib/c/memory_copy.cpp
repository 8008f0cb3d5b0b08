// SPDX-License-Identifier: Apache-2.0
#include "c/memory_copy.hpp"

#include "base/buffer.hpp"
#include "base/parallel.hpp"
#include "engine/device_readable.hpp"
#include "engine/device_streams.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <sys/mman.h>

namespace wdelta {

namespace {

constexpr std::size_t k_stretch_bytes = std::size_t{4} << 20;

// Calls make_worker()(offset, size) for all bytes, in stretches.
template <typename MakeWorker>
void for_each_stretch(std::size_t size_bytes, const Execution& execution, MakeWorker make_worker) {
  const auto stretch_worker = [&] {
    return [size_bytes, worker = make_worker()](std::size_t stretch) mutable {
      const std::size_t begin = stretch * k_stretch_bytes;
      worker(begin, std::min(k_stretch_bytes, size_bytes - begin));
    };
  };
  const std::size_t stretches = (size_bytes + k_stretch_bytes - 1) / k_stretch_bytes;
  if (stretches == 1) {
    stretch_worker()(0);
  } else if (stretches > 1) {
    parallel_for(stretches, execution, stretch_worker);
  }
}

class HostBytes final : public MemoryCopy {
 public:
  HostBytes(const ByteReader& source, const Execution& execution) : name_(source.name()) {
    if (source.size_bytes() > 0) bytes_ = memory_.of_size(static_cast<std::size_t>(source.size_bytes()));
    // Else filling it for the first time costs a page fault for every 4 KiB. It is advice: nothing depends on it.
    if (bytes_.size() >= k_stretch_bytes) ::madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE);
    overwrite(source, execution);
  }

  void overwrite(const ByteReader& source, const Execution& execution) override {
    for_each_stretch(bytes_.size(), execution, [&] {
      return [&](std::size_t begin, std::size_t size) { source.read_at(begin, bytes_.subspan(begin, size)); };
    });
  }
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
  }
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  Buffer memory_;
  std::span<std::uint8_t> bytes_;
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

std::shared_ptr<MemoryCopy> keep_on_host(const ByteReader& source, const Execution& execution) {
  return std::make_shared<HostBytes>(source, execution);
}

std::shared_ptr<MemoryCopy> keep_on_device(const ByteReader& source, Device& device, const Execution& execution) {
  return std::make_shared<DeviceBytes>(source, device, execution);
}

}  // namespace wdelta
