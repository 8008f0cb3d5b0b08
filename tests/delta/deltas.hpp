// SPDX-License-Identifier: Apache-2.0
// Making and applying deltas of files in memory, and forging them.
#pragma once

#include "base/json_fwd.hpp"
#include "delta/diff.hpp"
#include "delta/file_version.hpp"
#include "testing/execution.hpp"
#include "testing/safetensors_file.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace wdelta::testing {

using Bytes = std::vector<std::uint8_t>;

/// A file of a checkpoint in memory.
struct PlacedFile {
  std::string path;
  Bytes bytes;
};

std::shared_ptr<const ByteReader> reader_of(const PlacedFile& file);

/// So that files of a few segments have groups that go over some, and several runs.
inline constexpr SegmentRuns k_runs{3, 1};

/// How to run: by default as simply as can be.
struct Run {
  const Engine* engine = &engines().back();
  unsigned threads = 1;
  BlockChoice choice = BlockChoice::automatic;
  SegmentRuns runs = k_runs;

  DeltaCoding coding() const { return {choice, runs}; }
};

std::vector<Run> all_runs();

/// The delta that makes `next` out of `base`, and what diff_file() said of it.
struct MadeDelta {
  Bytes bytes;
  FileChange change;
};
MadeDelta make_delta(const std::vector<PlacedFile>& base, const PlacedFile& next, const Run& run = {});
/// The same wherever the bytes lie.
MadeDelta make_delta(const OrderedBase& base, const std::string& path, const std::shared_ptr<const ByteReader>& next,
                     const Run& run);
inline MadeDelta make_delta(const std::vector<BaseFile>& base, const std::string& path,
                            const std::shared_ptr<const ByteReader>& next, const Run& run) {
  return make_delta(OrderedBase(base), path, next, run);
}

/// The same for files that are no safetensors files, seen as elements of `dtype`. `base`: one file or none.
MadeDelta make_opaque_delta(const std::vector<PlacedFile>& base, const PlacedFile& next, std::string_view dtype,
                            const Run& run = {});

std::shared_ptr<const DeltaReader> open_delta(const Bytes& delta);

/// What `delta` makes of `base`, whose files are taken to be what the delta says they are.
FileVersion version_of(const Bytes& delta, const std::vector<PlacedFile>& base, const Run& run = {});

/// Writes a version as apply does, checking everything, and reads the file back.
Bytes written(const FileVersion& version, unsigned threads = 1);

/// What the device of the file's engine makes of so many bytes of it.
Bytes read_on_device(const RebuiltFile& file, std::uint64_t offset, std::size_t size_bytes);

Bytes apply_delta(const Bytes& delta, const std::vector<PlacedFile>& base, const Run& run = {});

/// The delta with its header changed by `edit`, which gets the whole header, and sealed anew: what a hostile writer
/// could make.
Bytes forged(const Bytes& delta, const std::function<void(Json& header)>& edit);

/// `bytes` with about this share of elements changed: mostly in the lowest byte, at times in all. More often those with
/// an odd highest byte, so that classes pay.
Bytes with_changes(Bytes bytes, std::size_t width_bytes, double density, std::mt19937_64& random);

/// Elements of a row of weights(): blocks begin anywhere in one.
inline constexpr std::uint64_t k_row_elements = 100;

/// At most `count` weights of bf16 whose exponents lie close together, in rows.
TestTensor weights(std::string name, std::uint64_t count, std::mt19937_64& random);

/// Of weights() of that name only a tenth of the rows change, and those ten times as much, as of an embedding.
inline constexpr std::string_view k_used_in_part = "used_in_part";
std::vector<TestTensor> with_changes(std::vector<TestTensor> tensors, double density, std::mt19937_64& random);

}  // namespace wdelta::testing
