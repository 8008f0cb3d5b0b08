// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/rebuilt_file.hpp"
#include "delta/step_blocks.hpp"
#include "engine/device_patches.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Makes parts of a rebuilt file on a device. Blocks that are coded in classes, or not at all, through the whole chain
/// are patched there; all else is made by the host and copied. One thread at a time; it keeps its memory.
class DeviceRebuilder {
 public:
  DeviceRebuilder(const Engine& engine, Device& device);

  /// A part of a file in memory of the device.
  struct Part {
    std::uint64_t offset;  ///< in the file
    std::uint8_t* bytes;
    std::size_t size_bytes;
  };
  /// Fills the part.
  void read(const RebuiltFile& file, const Part& part, DeviceStream& stream);
  /// The part holds bytes of file.in_place_origin(), which `origin` are too, on the host: makes it the file's.
  void patch(const RebuiltFile& file, const Part& part, std::span<const std::uint8_t> origin, DeviceStream& stream);
  /// Waits until all is there. Throws corrupt, as RebuiltFile::read_at() does.
  void finish(DeviceStream& stream);

 private:
  /// Whole blocks of one tensor.
  struct Run {
    std::size_t tensor;
    std::uint64_t first_block;
    std::uint64_t block_count;
    std::uint64_t begin;  ///< in the file
    std::uint64_t end;
  };
  /// What a patch is of, for a message.
  struct Patched {
    const DeltaReader* delta;
    const Tensor* tensor;
    std::uint64_t block;
  };

  void start();
  void list_runs(const RebuiltFile& file, const Part& part);
  void add_to_runs(const Tensor& tensor, std::size_t index, const IndexRange& blocks);
  bool is_for_device(const RebuiltFile& file, std::size_t tensor, std::uint64_t block);
  template <class Visit>
  void each_stretch_between(const Part& part, Visit visit) const;
  void patch_runs(const RebuiltFile& file, const Part& part, DeviceStream& stream);
  void patch_step(const RebuiltFile& file, const Run& run, std::size_t step_index, std::uint8_t* blocks,
                  DeviceStream& stream);

  Device* device_;
  std::unique_ptr<BatchDecoder> batches_;  // of all steps
  std::vector<StepBlocks> at_;             // of each step
  DevicePatches patches_;
  DeviceBuffer on_host_;  // what the host makes of a part, and what it reads for the device
  std::vector<Run> runs_;
  std::vector<Patched> patched_;
};

}  // namespace wdelta
