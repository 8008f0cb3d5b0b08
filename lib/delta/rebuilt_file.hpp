// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/tensor_plan.hpp"
#include "engine/device_readable.hpp"
#include "engine/engine.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// A checkpoint file that exists only as a plan: some origin files and a chain of deltas, resolved tensor by tensor
/// through all headers. It reads like any file; each block goes through the whole chain in cache, so that a chain of
/// any length costs one reading. Its bytes are not checked here: whoever reads it all compares the digest.
class RebuiltFile final : public ByteReader, public DeviceReadable {
 public:
  /// A file of a base, as it is. Throws corrupt when it is no safetensors file.
  static std::shared_ptr<const RebuiltFile> from_file(std::shared_ptr<const ByteReader> file);
  /// Any file, seen as `size_bytes` bytes of elements: SafetensorsHeader::of_bytes().
  static std::shared_ptr<const RebuiltFile> from_bytes(const std::shared_ptr<const ByteReader>& file,
                                                       std::uint64_t size_bytes, const Dtype& dtype);
  /// What `delta` makes of `base`, one file for each that its description names, in that order. Throws base_mismatch
  /// when a base has not the tensors that the delta needs, corrupt when the delta does not fit its own result.
  static std::shared_ptr<const RebuiltFile> from_delta(std::shared_ptr<const DeltaReader> delta,
                                                       const std::vector<std::shared_ptr<const RebuiltFile>>& base,
                                                       const Engine& engine);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  /// Large when blocks have to be patched: a block that a piece cuts is patched for both its parts.
  std::size_t piece_bytes() const override {
    return is_origin() ? in_place_origin_->piece_bytes() : k_large_piece_bytes;
  }
  /// Goes by the files that it is made of; that deltas changed shows in the digest.
  void check_unchanged() const override;
  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    return is_origin() ? in_place_origin_->map(offset, size_bytes) : std::nullopt;
  }

  /// The latest of all files that it is made of: it looks at each.
  std::optional<std::int64_t> changed_ns() const override;

  /// Where its engine has that device, or its one file lies there.
  bool is_on(const Device& device) const override;
  void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const override;

  const SafetensorsHeader& header() const { return *header_; }
  /// Whether it is seen as any file's bytes, and has no header of its own.
  bool is_opaque() const { return header_->front().empty(); }
  const std::shared_ptr<const SafetensorsHeader>& shared_header() const { return header_; }
  /// How the tensor with that place in the header is had.
  const TensorPlan& plan(std::size_t tensor) const { return plans_[tensor]; }
  /// That patches; null for a file as it is.
  const Engine* engine() const { return engine_; }
  /// The one file that this one is made of, when every tensor lies there at the same offset as here; else null.
  const ByteReader* in_place_origin() const { return in_place_origin_.get(); }
  /// Turns bytes of in_place_origin(), already in `bytes`, into those of this file. Blocks that the range cuts cost
  /// twice, and so does what lies before it in a strip, but not where the same thread patched up to there last.
  void patch(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  /// The last offset up to `offset` at which no block is cut in two.
  std::uint64_t block_boundary_before(std::uint64_t offset) const;

 private:
  RebuiltFile() = default;
  /// Of the file that the delta makes: read once for a chain, where the front of the file stays as it is.
  static std::shared_ptr<const SafetensorsHeader> header_after(
      const DeltaReader& delta, const std::vector<std::shared_ptr<const RebuiltFile>>& base);
  void find_in_place_origin();
  void find_sources() const;
  /// Whether it is nothing but a file as it is.
  bool is_origin() const { return pool_ == nullptr && in_place_origin_ != nullptr; }
  struct Worker;
  void patch_front(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  template <typename Visit>
  void for_each_tensor(std::uint64_t offset, std::span<std::uint8_t> bytes, Visit visit) const;
  void read_origin(std::size_t tensor, std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  void patch_tensor(std::unique_ptr<Worker>& lent, std::size_t tensor, std::uint64_t offset,
                    std::span<std::uint8_t> bytes) const;

  /// Workers are lent to reading threads and come back.
  class Pool;
  std::shared_ptr<Pool> pool_;

  std::string name_;
  std::uint64_t size_bytes_ = 0;
  std::shared_ptr<const SafetensorsHeader> header_;  // of all files of a chain that begin alike
  std::vector<TensorPlan> plans_;                    // as header_->tensors()
  std::shared_ptr<const ByteReader> in_place_origin_;
  const Engine* engine_ = nullptr;

  /// What the plans lead to, each once; empty until it is asked for.
  mutable std::once_flag sources_found_;
  mutable std::vector<const ByteReader*> origins_;
  mutable std::vector<const DeltaReader*> deltas_;
};

}  // namespace wdelta
