// SPDX-License-Identifier: Apache-2.0
// A processor with memory of its own that compares, patches and hashes: what the cuda engine is made of. There are two
// implementations: the CUDA runtime (engine/cuda), and one in tests/engine that runs the same kernels on the host.
#pragma once

#include "engine/element.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace wdelta {

/// Memory of a device, or of the host pinned for it. Freed with the object, which the device must outlive. Begins at a
/// multiple of 256 bytes.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* begin() const = 0;
  virtual std::size_t size_bytes() const = 0;
};

/// One block of at most 65,536 elements on the device; neither pointer need be aligned.
struct DeviceBlock {
  const void* base;
  const void* next;     ///< null where only the base is looked at
  std::uint32_t count;  ///< of elements
};

/// What was found in a block. Everything about change i of block b lies at element
/// b * k_device_block_changes + i of an array on the device; positions ascend. Arrays begin at multiples of 16 bytes.
/// What lies behind the changes of a block, up to the next block's, is unspecified.
inline constexpr std::size_t k_device_block_changes = k_block_elements;
struct DeviceChanges {
  std::uint32_t* counts;  ///< by block
  std::uint16_t* positions;
  void* steps;             ///< as wide as elements are: BlockKernels::find_changes()
  std::uint8_t* contexts;  ///< context_of() the base's element: class_map.hpp; null where nobody asks
};

/// An array as rank_changes() or find_changes() laid it out by block, and where it goes without the gaps.
struct DevicePacking {
  const void* from;
  void* to;
  std::uint32_t width_bytes;  ///< of an element
};
inline constexpr std::size_t k_most_packings = 3;  ///< at a time

/// Arguments of DeviceStream::patch(): one strip, its changes ordered by class as ClassedChanges has them.
struct DevicePatch {
  void* elements;                   ///< patched in place; need not be aligned
  std::uint32_t count;              ///< of elements: of as many blocks as come one behind the other
  std::uint32_t first_change;       ///< where its changes begin in `ranks` and `moves`
  std::uint32_t class_changes[16];  ///< how many changes each class has
  std::uint32_t first_flip;         ///< where its words begin in `flips`, or k_no_flips
  std::uint8_t bounds[15];          ///< of the classes, ascending
  std::uint8_t bound_count;         ///< one less than there are classes
};
inline constexpr std::uint32_t k_no_flips = UINT32_MAX;

/// A patch that claims more changes together has status 1, and nothing is looked at.
inline constexpr std::uint32_t k_most_patch_changes = 65536;

/// Arguments of DeviceStream::apply_changes(): one block.
struct DeviceSteps {
  void* elements;              ///< patched in place; need not be aligned
  std::uint32_t first_change;  ///< where its changes begin in `positions` and `steps`
  std::uint32_t changes;       ///< at most 65,536
};

/// A queue of work on a device: everything is done in order, and asynchronously until wait(). One thread at a time.
/// Pointers into the device's memory must stay valid until then, and host memory that is copied from or to as well;
/// what is passed by reference or span may go at once. A stream that goes without wait() may leave its work undone.
/// Failures of the device are Error(local) with a hint, here or at wait().
///
/// Kernels read memory in words of 16 bytes: bytes beside an array too, where they share such a word with it. They
/// write nothing but what is said. Arrays of structures, ranks, moves and steps lie at multiples of their elements'
/// width.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// Copies; `from` of upload and `to` of download lie on the host, pinned where that matters for speed.
  virtual void upload(void* to, const void* from, std::size_t size_bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t size_bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t size_bytes) = 0;
  virtual void fill_zeros(void* to, std::size_t size_bytes) = 0;
  virtual void wait() = 0;

  /// BlockKernels::find_changes() for every block, in one launch. `blocks` lie on the device.
  virtual void find_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                            const DeviceChanges& found) = 0;
  /// BlockKernels::rank_changes() for every block with changes; counts and positions as found before, `ranks` and
  /// `classes` laid out alike, and 16 numbers of members for each block, unspecified without changes. Elements are at
  /// most 4 bytes wide; `bounds` lie on the host.
  virtual void rank_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                            std::span<const std::uint8_t> bounds, const DeviceChanges& found, std::uint16_t* ranks,
                            std::uint8_t* classes, std::uint32_t* members) = 0;
  /// Packs arrays in one launch: element i of block b goes to starts[b] + i. `counts` and `starts` lie on the device.
  virtual void pack(std::span<const DevicePacking> arrays, const std::uint32_t* counts, const std::uint32_t* starts,
                    std::size_t block_count) = 0;
  /// ClassedKernels::apply() for every strip, or what there is of it, in one launch. All pointers lie on the device.
  /// The status of each is 0, or 1 when a class has not so many elements: then those of the strip are unspecified.
  /// Nothing outside them is written whatever ranks and moves say.
  virtual void patch(ElementType type, const DevicePatch* patches, std::size_t patch_count, const std::uint32_t* ranks,
                     const void* moves, const std::uint64_t* flips, std::uint32_t* statuses) = 0;
  /// BlockKernels::apply_changes(): adds steps at positions of one block.
  virtual void apply_changes(ElementType type, void* elements, const std::uint16_t* positions, const void* steps,
                             std::uint32_t changes) = 0;
  /// The same for many blocks in one launch; `blocks` lie on the device. Steps of DeviceSteps may begin anywhere in
  /// `positions` and `steps`, such as where find_changes() left them.
  virtual void apply_changes(ElementType type, const DeviceSteps* blocks, std::size_t block_count,
                             const std::uint16_t* positions, const void* steps) = 0;
  /// The BLAKE3 chaining value of every whole subtree of `subtree_bytes` (a power of two from 1024 on) of the stream:
  /// the bytes begin at chunk `first_chunk`, any alignment, and are `subtree_count` subtrees. Eight words each, on the
  /// device, as `scratch` is, which has room for 32 bytes for each 1024; both at multiples of 16 bytes.
  virtual void hash_subtrees(const void* bytes, std::size_t subtree_bytes, std::size_t subtree_count,
                             std::uint64_t first_chunk, void* scratch, std::uint32_t* values) = 0;
};

/// Waits, whatever comes of it: before memory goes that the stream may still be working with.
void settle(DeviceStream& stream) noexcept;

class DeviceMemories;
class DeviceStreams;
class HostPins;

/// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  /// Memory that nobody has at this moment: others take some too.
  virtual std::uint64_t free_bytes() const = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  /// A queue that the caller has (a cudaStream_t), to work in order with what it has put there.
  virtual std::unique_ptr<DeviceStream> stream_of(void* native) = 0;
  /// Queues to borrow, for what is done at once: device_streams.hpp.
  virtual DeviceStreams& streams() = 0;
  /// Memory to borrow: device_memories.hpp. What stays for long is allocated.
  virtual DeviceMemories& memories() = 0;
  /// Memory of the host that others have and the device copies by itself: host_pins.hpp.
  virtual HostPins& pins() = 0;
  virtual std::unique_ptr<DeviceMemory> allocate(std::size_t size_bytes) = 0;
  virtual std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t size_bytes) = 0;

 protected:
  friend HostPins;
  /// Whether it is pinned now; it was not.
  virtual bool pin(std::span<std::uint8_t> memory) = 0;
  virtual void unpin(std::span<std::uint8_t> memory) = 0;
};

/// Why there is a device, or none: for `--version -v`.
struct DeviceAnswer {
  Device* device = nullptr;  ///< lives as long as the program
  std::string reason;        ///< "NVIDIA H200, driver 13.0", or what is missing
};

/// Looks for a CUDA device, once; needs no driver to be called, and sets nothing up on the device. Where there are
/// several it is the first that can be used (CUDA_VISIBLE_DEVICES says which are seen).
const DeviceAnswer& cuda_device();

/// The device that holds what `memory` points to, for callers who bring their own. None where it lies on the host.
DeviceAnswer cuda_device_holding(const void* memory);

}  // namespace wdelta
