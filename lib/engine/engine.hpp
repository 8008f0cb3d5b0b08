// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/element.hpp"
#include "engine/kernels.hpp"

#include <span>
#include <string>
#include <string_view>

namespace wdelta {

/// One implementation of the kernels. All give the same bytes; they differ in what they need and how fast they are.
struct Engine {
  std::string_view name;
  std::string_view needs;  ///< the instruction sets, for people
  const KernelTable* kernels;
  bool (*usable)();  ///< can this processor run it

  const BlockKernels& block(ElementType type) const;
  /// Elements are at most 4 bytes wide.
  const ClassedKernels& classed(ElementType type) const;
};

/// Every engine compiled in, best first. The last, scalar, runs everywhere.
std::span<const Engine> engines();
/// The first usable engine.
const Engine& best_engine();
/// The engine of that name, or the best for "auto". Throws usage for an unknown name, unsupported where it cannot run.
const Engine& engine_named(std::string_view name);

}  // namespace wdelta
