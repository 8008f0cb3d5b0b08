// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "engine/device_readable.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// A file in memory, made of a front and of tensors that follow it one behind the other, on the host or on a device.
class JoinedReader final : public ByteReader, public DeviceReadable {
 public:
  JoinedReader(std::vector<std::uint8_t> front, std::string name)
      : front_(std::move(front)), name_(std::move(name)), size_bytes_(front_.size()) {}
  void append(std::shared_ptr<const ByteReader> part);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return piece_bytes_; }
  bool is_on(const Device& device) const override;
  void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const override;

 private:
  struct Part {
    std::uint64_t begin;
    std::shared_ptr<const ByteReader> bytes;
    const DeviceReadable* readable;  // the same, where it is one
  };
  // visit(part, offset in it, begin in the range, size) for the parts of a range; part is null for the front.
  template <typename Visit>
  void for_each_part(std::uint64_t offset, std::size_t size_bytes, Visit visit) const;

  std::vector<std::uint8_t> front_;
  std::string name_;
  std::vector<Part> parts_;  // none is empty
  std::uint64_t size_bytes_;
  std::size_t piece_bytes_ = k_small_piece_bytes;
};

}  // namespace wdelta
