// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "engine/cuda/block_blake3.hpp"
#include "engine/cuda/block_find.hpp"
#include "engine/cuda/block_pack.hpp"
#include "engine/cuda/block_patch.hpp"
#include "engine/cuda/block_rank.hpp"
#include "engine/cuda/block_steps.hpp"
#include "engine/device.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace wdelta::cuda {

/// The kernels of a DeviceStream over a queue that copies, and launches agents: launch<Agent>(thread_blocks,
/// arguments).
template <class Queue>
class AgentStream final : public DeviceStream {
 public:
  template <class... Arguments>
  explicit AgentStream(Arguments&&... arguments) : queue_(std::forward<Arguments>(arguments)...) {}

  void upload(void* to, const void* from, std::size_t size_bytes) override {
    if (size_bytes > 0) queue_.upload(to, from, size_bytes);
  }
  void download(void* to, const void* from, std::size_t size_bytes) override {
    if (size_bytes > 0) queue_.download(to, from, size_bytes);
  }
  void copy(void* to, const void* from, std::size_t size_bytes) override {
    if (size_bytes > 0) queue_.copy(to, from, size_bytes);
  }
  void fill_zeros(void* to, std::size_t size_bytes) override {
    if (size_bytes > 0) queue_.fill_zeros(to, size_bytes);
  }
  void wait() override { queue_.wait(); }

  void find_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                    const DeviceChanges& found) override {
    with_type(type, [&]<class T, ElementKind kind>() { launch<FindAgent<T, kind>>(block_count, {blocks, found}); });
  }

  void rank_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                    std::span<const std::uint8_t> bounds, const DeviceChanges& found, std::uint16_t* ranks,
                    std::uint8_t* classes, std::uint32_t* members) override {
    with_type(type, [&]<class T, ElementKind kind>() {
      if constexpr (sizeof(T) <= 4) {
        launch<RankAgent<T, kind>>(block_count,
                                   {blocks, bounds_of(bounds), found.counts, found.positions, ranks, classes, members});
      } else {
        throw Error(Fault::internal, "", "elements of 8 bytes have no classes");
      }
    });
  }

  void pack(std::span<const DevicePacking> arrays, const std::uint32_t* counts, const std::uint32_t* starts,
            std::size_t block_count) override {
    PackAgent::Arguments arguments{{}, static_cast<std::uint32_t>(arrays.size()), counts, starts};
    if (arrays.size() > k_most_packings) throw Error(Fault::internal, "", "too many arrays to pack at a time");
    std::ranges::copy(arrays, arguments.arrays);
    launch<PackAgent>(block_count * arrays.size(), arguments);
  }

  void patch(ElementType type, const DevicePatch* patches, std::size_t patch_count, const std::uint32_t* ranks,
             const void* moves, const std::uint64_t* flips, std::uint32_t* statuses) override {
    with_type(type, [&]<class T, ElementKind kind>() {
      if constexpr (sizeof(T) <= 4) {
        launch<PatchAgent<T, kind>>(patch_count, {patches, ranks, moves, flips, statuses});
      } else {
        throw Error(Fault::internal, "", "elements of 8 bytes have no classes");
      }
    });
  }

  void apply_changes(ElementType type, void* elements, const std::uint16_t* positions, const void* steps,
                     std::uint32_t changes) override {
    with_type(type, [&]<class T, ElementKind kind>() {
      launch<StepsAgent<T, kind>>(changes > 0 ? 1 : 0, {nullptr, {elements, 0, changes}, positions, steps});
    });
  }

  void apply_changes(ElementType type, const DeviceSteps* blocks, std::size_t block_count,
                     const std::uint16_t* positions, const void* steps) override {
    with_type(type, [&]<class T, ElementKind kind>() {
      launch<StepsAgent<T, kind>>(block_count, {blocks, {}, positions, steps});
    });
  }

  void hash_subtrees(const void* bytes, std::size_t subtree_bytes, std::size_t subtree_count, std::uint64_t first_chunk,
                     void* scratch, std::uint32_t* values) override {
    auto levels_left = static_cast<std::uint32_t>(std::countr_zero(subtree_bytes / k_blake3_chunk_bytes));
    std::uint64_t left = subtree_count * (subtree_bytes / k_blake3_chunk_bytes);
    auto* room = static_cast<std::uint32_t*>(scratch);
    // Each launch writes behind what the last one wrote: that is read by others still.
    const auto results = [&](std::uint32_t levels) {
      levels_left -= levels;
      left >>= levels;
      return levels_left == 0 ? values : std::exchange(room, room + left * 8);
    };

    const std::uint64_t chunk_count = left;
    const std::uint32_t levels = std::min(levels_left, ChunkAgent::k_most_levels);
    const std::uint32_t* children = results(levels);
    launch<ChunkAgent>((chunk_count + ChunkAgent::k_threads - 1) / ChunkAgent::k_threads,
                       {bytes, first_chunk, chunk_count, levels, const_cast<std::uint32_t*>(children)});
    while (levels_left > 0) {
      const std::uint64_t child_count = left;
      const std::uint32_t more = std::min(levels_left, ParentAgent::k_most_levels);
      std::uint32_t* const parents = results(more);
      launch<ParentAgent>((child_count / 2 + ParentAgent::k_threads - 1) / ParentAgent::k_threads,
                          {children, child_count, more, parents});
      children = parents;
    }
  }

 private:
  template <class Agent>
  void launch(std::size_t thread_blocks, const typename Agent::Arguments& arguments) {
    if (thread_blocks > 0) queue_.template launch<Agent>(thread_blocks, arguments);
  }

  template <class Visit>
  static void with_type(ElementType type, Visit visit) {
    const auto with_kind = [&]<class T>(T) {
      if (type.kind == ElementKind::floating) {
        visit.template operator()<T, ElementKind::floating>();
      } else {
        visit.template operator()<T, ElementKind::integer>();
      }
    };
    if (type.width_bytes == 1) return with_kind(std::uint8_t{});
    if (type.width_bytes == 2) return with_kind(std::uint16_t{});
    if (type.width_bytes == 4) return with_kind(std::uint32_t{});
    with_kind(std::uint64_t{});
  }

  static Bounds bounds_of(std::span<const std::uint8_t> bounds) {
    Bounds copied = {};
    copied.count = static_cast<std::uint32_t>(std::min<std::size_t>(bounds.size(), k_classes - 1));
    std::copy_n(bounds.begin(), copied.count, copied.first);
    return copied;
  }

  Queue queue_;
};

}  // namespace wdelta::cuda
