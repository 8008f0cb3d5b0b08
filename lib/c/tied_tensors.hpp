// SPDX-License-Identifier: Apache-2.0
// Tensors of a caller's that share memory.
#pragma once

#include "c/tensor.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace wdelta {

/// For each of some tensors the first of them that is the same memory, read in the same order: itself, where it is tied
/// to none before it. Throws usage, naming both, where two share memory in another way: whatever they were filled with,
/// one of them would hold something else.
std::vector<std::size_t> tied_to(std::span<const GivenTensor> tensors);

/// Memory that several tensors of a commit are put into. Which bytes come first is written, and those that come to the
/// same place later are compared with them. Several threads may write at a time, the same range too.
class TiedTarget final : public TensorTarget {
 public:
  explicit TiedTarget(const GivenTensor& tensor) : tensor_(tensor), target_(target_of(tensor)) {}

  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) const override;
  Device* device() const override { return target_->device(); }
  /// Whether two different bytes were to be in one place.
  bool differs() const { return differs_; }

 private:
  bool holds(std::uint64_t offset, std::span<const std::uint8_t> bytes) const;

  GivenTensor tensor_;
  std::shared_ptr<const TensorTarget> target_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, std::uint64_t> written_;  // begin and end, apart from each other
  mutable std::atomic<bool> differs_ = false;
};

}  // namespace wdelta
