// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file_turns.hpp"
#include "engine/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// for_each_file() for the files of a checkpoint, but one by one where the engine has a device: its memory is divided
/// among the threads that work on one file.
template <typename Work>
void for_each_place(std::span<const std::uint64_t> sizes_bytes, const Engine& engine, const Execution& execution,
                    Work work) {
  if (engine.device() == nullptr) return for_each_file(sizes_bytes, execution, work);
  for (std::size_t index = 0; index < sizes_bytes.size(); ++index) work(index, execution);
}

}  // namespace wdelta
