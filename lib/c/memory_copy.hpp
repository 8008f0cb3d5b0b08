// SPDX-License-Identifier: Apache-2.0
// Copies that outlive what they were made of.
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "c/host_memories.hpp"
#include "engine/device.hpp"

#include <memory>

namespace wdelta {

class MemoryCopy : public ByteReader {
 public:
  /// The same from another source of this size, over what was there. Nobody may be reading.
  virtual void overwrite(const ByteReader& source, const Execution& execution) = 0;
};

struct HostCopy {
  std::shared_ptr<HostMemories> memories;  ///< where its memory is from and goes back to; null: nowhere
  Device* from = nullptr;                  ///< the one that all bytes of every source lie on, in their order
};

/// All of `source`, read once, by several threads where it is large and by the device where it comes from one; in
/// memory of the host.
std::shared_ptr<MemoryCopy> keep_on_host(const ByteReader& source, const Execution& execution,
                                         const HostCopy& how = {});
/// In memory of a device, where it is read by what compares there. What is on that device already does not leave it.
std::shared_ptr<MemoryCopy> keep_on_device(const ByteReader& source, Device& device, const Execution& execution);

}  // namespace wdelta
