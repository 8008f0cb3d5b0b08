// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/output_file.hpp"
#include "base/stage_clock.hpp"
#include "delta/device_digests.hpp"
#include "delta/device_rebuilder.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace wdelta {

/// Makes segments of a rebuilt file on a device, hashes them on both ends there, and writes them. One per thread.
class DeviceSegmentWriter {
 public:
  struct Files {
    const RebuiltFile* rebuilt;
    const ByteReader* origin;  ///< its in_place_origin(), to be hashed too; or null
    Blake3Tree* origin_tree;
    Blake3Tree* result_tree;
    OutputFile* output;  ///< null: nothing is written
  };

  /// All must outlive it.
  DeviceSegmentWriter(const Files& files, Device& device, StageClock* stages);
  ~DeviceSegmentWriter();
  DeviceSegmentWriter(DeviceSegmentWriter&&) = default;

  void operator()(std::size_t index);

  /// How many threads there is memory for on the device.
  static unsigned most_threads(Device& device);

 private:
  void take_digest(DeviceDigests::End end, Blake3Tree& tree);

  Files files_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceRebuilder> rebuilder_;
  DeviceBuffer on_device_;
  DeviceBuffer on_host_;
  DeviceDigests digests_;
  StageLaps laps_;
};

}  // namespace wdelta
