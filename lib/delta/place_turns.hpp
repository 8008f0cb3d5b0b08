// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file_turns.hpp"
#include "delta/device_segment_writer.hpp"
#include "engine/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// file_turns() for the files of a checkpoint. Where the engine has a device none is on one thread, and there are
/// several lanes only where its memory is enough for all threads: it is divided among those that work on a file.
inline FileTurns place_turns(std::span<const std::uint64_t> sizes_bytes, const Engine& engine, std::size_t threads,
                             FileWork work = {}) {
  if (Device* const device = engine.device()) {
    work.may_be_on_one_thread = false;
    work.writes_file = work.writes_file && threads <= DeviceSegmentWriter::most_threads(*device);
  }
  return file_turns(sizes_bytes, threads, work);
}

/// for_each_file() with these turns.
template <typename WorkOn>
void for_each_place(std::span<const std::uint64_t> sizes_bytes, const Engine& engine, const Execution& execution,
                    WorkOn work_on, FileWork work = {}) {
  for_each_file(place_turns(sizes_bytes, engine, execution.threads, work), execution, work_on);
}

}  // namespace wdelta
