// SPDX-License-Identifier: Apache-2.0
// Copies that outlive what they were made of.
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "engine/device.hpp"

#include <memory>

namespace wdelta {

class MemoryCopy : public ByteReader {
 public:
  /// The same from another source of this size, over what was there. Nobody may be reading.
  virtual void overwrite(const ByteReader& source, const Execution& execution) = 0;
};

/// All of `source`, read once, by several threads where it is large; in memory of the host.
std::shared_ptr<MemoryCopy> keep_on_host(const ByteReader& source, const Execution& execution);
/// In memory of a device, where it is read by what compares there. What is on that device already does not leave it.
std::shared_ptr<MemoryCopy> keep_on_device(const ByteReader& source, Device& device, const Execution& execution);

}  // namespace wdelta
