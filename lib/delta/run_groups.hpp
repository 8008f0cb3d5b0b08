// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/parallel.hpp"
#include "checkpoint/safetensors.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace wdelta {

/// Blocks of one tensor that follow each other, coded, on their way from the thread that made them to the writer.
struct TensorGroup {
  std::size_t tensor;
  CodedGroup coded;
};
/// The groups that end in one segment.
using CodedSegment = std::vector<TensorGroup>;

/// How many segments of a file one thread codes one after the other. Where groups end depends on it, and so the bytes
/// of a delta do; on how many threads there are they do not.
struct SegmentRuns {
  std::size_t longest = 8;       ///< longer ones hardly make groups of few changes smaller
  std::size_t least_parts = 16;  ///< see TaskRuns: so many threads share even the end of a file

  TaskRuns of(std::size_t segment_count) const { return {segment_count, longest, least_parts}; }
};

/// Makes the groups of a run of segments: the blocks of a tensor that begin in a segment, and those in the next ones
/// until there are enough for the parameters of a group to be worth what they take. One per thread.
class RunGroups {
 public:
  RunGroups(const Engine& engine, BlockChoice choice) : encoder_(engine, choice) { encoder_.begin_run(); }

  /// The offsets in the file before which all blocks of the segment, and all of its run, begin.
  struct Ends {
    std::uint64_t segment;
    std::uint64_t run;
  };
  /// The encoder that takes the next block, which begins at `begin` in the file and is of tensor number `tensor`. What
  /// this ends is appended to `coded`.
  GroupEncoder& encoder_for(std::size_t tensor, const Tensor& layout, std::uint64_t begin, const Ends& ends,
                            CodedSegment& coded);
  /// The segment has no more blocks. Appends what ends with it.
  void end_segment(bool ends_run, CodedSegment& coded);

 private:
  void finish(CodedSegment& coded);

  GroupEncoder encoder_;
  std::optional<std::size_t> tensor_;  // of the group that is begun
};

}  // namespace wdelta
