// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "base/stage_clock.hpp"
#include "delta/hashed_stream.hpp"
#include "delta/run_groups.hpp"
#include "delta/tensor_blocks.hpp"
#include "delta/tensor_sources.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// The first file of a base, where it can be read from front to end beside next and hashed on the way. Tensors that lie
/// further on or back by `shift` bytes, as all do when a header grew or shrank a little, are compared as they pass;
/// others are read once more, one by one.
struct BaseStream {
  /// Further than this the window would hold too much.
  static constexpr std::int64_t k_largest_shift = std::int64_t{64} << 10;

  const RebuiltFile* file;
  std::int64_t shift;

  /// Nothing when there is no base, or one that is seen at another size than it has.
  static std::optional<BaseStream> of(const TensorSources& sources, const SafetensorsHeader& next);

  /// Where the base is when next is at `offset`.
  std::uint64_t place(std::uint64_t offset) const {
    return shift < 0 && offset < static_cast<std::uint64_t>(-shift) ? 0 : offset + static_cast<std::uint64_t>(shift);
  }
  /// Whether the counterpart of a tensor of next, which lies at `source`, is where this stream comes along with it.
  bool passes_by(const Tensor& tensor, const TensorSources::Place& source) const {
    return source.file == file && source.begin == tensor.begin + static_cast<std::uint64_t>(shift);
  }
};

/// Codes the blocks of segments of next, run by run, and hashes these segments of both files. One per thread.
class SegmentCoder {
 public:
  struct Files {
    const ByteReader* next;
    const SafetensorsHeader* header;  ///< of next
    const TensorSources* sources;
    std::optional<BaseStream> base;
    Blake3Tree* next_tree;
    Blake3Tree* base_tree;  ///< where there is a base stream

    /// Whether the base stream comes along with that tensor of next.
    bool passes_by(std::size_t tensor) const {
      return base && base->passes_by(header->tensors()[tensor], sources->places[tensor]);
    }
    /// Of the file that has more of them.
    std::size_t segment_count() const;
    /// Of segment `index`, in a run that ends before segment `run_end`.
    RunGroups::Ends ends(std::size_t index, std::size_t run_end) const;
  };

  /// What `files` points to must outlive it.
  SegmentCoder(const Files& files, BlockChoice choice, const Engine& engine, StageClock* stages);

  /// Segments of a run, up to `run_end`, are taken one after the other.
  CodedSegment operator()(std::size_t index, std::size_t run_end);

 private:
  std::uint64_t end_of_piece() const;
  bool is_held(const BlockWalk& block) const;
  void drop_before(std::uint64_t offset);
  void code(const BlockWalk& block, const RunGroups::Ends& ends, CodedSegment& coded);
  std::span<const std::uint8_t> base_of(const BlockWalk& block);

  Files files_;
  HashedStream next_;
  std::optional<HashedStream> base_;
  RunGroups groups_;
  Buffer base_block_;  // of a tensor that does not pass by
  StageLaps laps_;
};

}  // namespace wdelta
