// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file_turns.hpp"
#include "engine/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// file_turns() for the files of a checkpoint, but one by one where the engine has a device: its memory is divided
/// among the threads that work on one file.
inline FileTurns place_turns(std::span<const std::uint64_t> sizes_bytes, const Engine& engine, std::size_t threads,
                             TurnsSpent spent = TurnsSpent::working) {
  return file_turns(sizes_bytes, engine.device() == nullptr ? threads : 1, spent);
}

/// for_each_file() with these turns.
template <typename Work>
void for_each_place(std::span<const std::uint64_t> sizes_bytes, const Engine& engine, const Execution& execution,
                    Work work) {
  for_each_file(place_turns(sizes_bytes, engine, execution.threads), execution, work);
}

}  // namespace wdelta
