// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "delta/delta_writer.hpp"
#include "delta/ordered_base.hpp"
#include "delta/run_groups.hpp"
#include "engine/block.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// What happened to one tensor of the result.
struct TensorChange {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  bool afresh = false;  ///< it has no source: new or retyped
  std::uint64_t element_count = 0;
  std::uint64_t change_count = 0;
  std::uint64_t largest_step = 0;                             ///< in units of neighbouring numbers
  std::uint64_t encoded_bytes = 0;                            ///< of coded blocks
  std::array<std::uint64_t, k_block_modes> blocks_by_mode{};  ///< indexed by BlockMode

  /// The mode of most of its changed blocks; same when nothing changed.
  BlockMode main_mode() const;
};

/// The file that an opaque one is compared with.
struct OpaqueBase {
  std::string path;
  std::shared_ptr<const ByteReader> file;
};

struct FileChange {
  DeltaDescription description;
  std::vector<TensorChange> tensors;
  std::vector<std::string> removed_tensors;  ///< in the base's first file, not in the result
  std::uint64_t encoded_bytes = 0;
  bool front_changed = false;
  /// The delta, ready to commit, where one was asked for.
  std::optional<DeltaWriter::Finished> delta;
};

/// How a delta is coded: what it says of the result is the same.
struct DeltaCoding {
  BlockChoice blocks = BlockChoice::automatic;
  SegmentRuns runs{};
};

/// Compares the safetensors file `next` (its place: `path`) with a base and, where `output` is given, writes the delta.
///
/// `base.front()` is the file that has next's place, unless `base` is empty; tensors are looked for as find_sources()
/// says. Each segment of next and, where the layouts agree, of base is read once: hashed, compared and
/// coded while it is in cache. The digests in the result's description are those of the bytes that were read. Throws
/// corrupt when next is no safetensors file; the caller sees to files that change while they are read.
FileChange diff_file(const OrderedBase& base, const std::string& path, const std::shared_ptr<const ByteReader>& next,
                     const std::optional<std::filesystem::path>& output, const DeltaCoding& coding,
                     const Engine& engine, const Execution& execution);

/// The same for a file that is no safetensors file: it and the base are taken for elements of `dtype`, compared at the
/// same offsets. Without a base the delta is the file compressed.
FileChange diff_opaque_file(const std::optional<OpaqueBase>& base, const std::string& path,
                            const std::shared_ptr<const ByteReader>& next, const Dtype& dtype,
                            const std::optional<std::filesystem::path>& output, const DeltaCoding& coding,
                            const Engine& engine, const Execution& execution);

}  // namespace wdelta
