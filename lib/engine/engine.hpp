// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/element.hpp"
#include "engine/kernels.hpp"

#include <span>
#include <string>
#include <string_view>

namespace wdelta {

class Device;         // device.hpp
struct DeviceAnswer;  // the same

/// One implementation of the kernels. All give the same bytes; they differ in what they need and how fast they are.
struct Engine {
  std::string_view name;
  std::string_view needs;  ///< the instruction sets, for people
  const KernelTable* kernels;
  bool (*usable)();  ///< can it run here
  /// Null for a processor. Else much of the work is done by the device that this finds: what is not, by `kernels`.
  const DeviceAnswer& (*find_device)() = nullptr;

  /// Null where there is none.
  Device* device() const;
  /// Why it can run here, or cannot, for people: "this processor lacks AVX2 ...", "NVIDIA H200, driver 13.0".
  std::string reason() const;

  const BlockKernels& block(ElementType type) const;
  /// Elements are at most 4 bytes wide.
  const ClassedKernels& classed(ElementType type) const;
};

/// Every engine compiled in, best first. The last, scalar, runs everywhere.
std::span<const Engine> engines();
/// The first usable engine that works without a device.
const Engine& best_engine();
/// The engine of that name, or the best for "auto". Throws usage for an unknown name, unsupported where it cannot run.
const Engine& engine_named(std::string_view name);

}  // namespace wdelta
