// SPDX-License-Identifier: Apache-2.0
#include "delta/diff.hpp"

#include "base/buffer.hpp"
#include "base/parallel.hpp"
#include "base/reader_digest.hpp"
#include "base/segments.hpp"
#include "base/window.hpp"
#include "delta/tensor_blocks.hpp"
#include "delta/tensor_sources.hpp"
#include "engine/group.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

BlockMode TensorChange::main_mode() const {
  if (change_count == 0 && encoded_bytes == 0) return BlockMode::same;
  if (afresh) return BlockMode::whole;
  const auto first = blocks_by_mode.begin() + 1;
  return static_cast<BlockMode>(1 + (std::max_element(first, blocks_by_mode.end()) - first));
}

namespace {

// The blocks of one tensor that begin in one segment, coded, on their way from the thread that made them to the writer.
struct SegmentGroup {
  std::size_t tensor;
  CodedGroup coded;
};
using CodedSegment = std::vector<SegmentGroup>;

// Codes the blocks that begin in one segment of next. Owns its buffers; one per thread.
class SegmentCoder {
 public:
  SegmentCoder(const ByteReader& next, const SafetensorsHeader& header, const TensorSources& sources, bool in_place,
               Blake3Tree& next_tree, Blake3Tree* base_tree, BlockChoice choice, const Engine& engine,
               StageClock* stages)
      : next_(&next),
        header_(&header),
        sources_(&sources),
        in_place_(in_place),
        next_tree_(&next_tree),
        base_tree_(base_tree),
        base_(in_place ? sources.files.front()->file.get() : nullptr),
        piece_bytes_(std::max(next.piece_bytes(), in_place ? base_->piece_bytes() : 0)),
        encoder_(engine, choice),
        laps_(stages) {}

  CodedSegment operator()(std::size_t index) {
    const Segment segment = segment_at(next_->size_bytes(), index);
    Blake3Segment next_hash(*next_tree_, index);
    std::optional<Blake3Segment> base_hash;
    if (in_place_) base_hash.emplace(*base_tree_, index);
    next_window_.restart(segment.begin);
    base_window_.restart(segment.begin);
    BlockWalk block(*header_, segment.begin, segment.end());
    CodedSegment coded;
    laps_.restart();
    for_each_piece(segment, piece_bytes_, [&](const Segment& piece) {
      hash(next_hash, read(*next_, next_window_, piece.size_bytes));
      if (in_place_) hash(*base_hash, read(*base_, base_window_, piece.size_bytes));
      for (; !block.done() && block.end() <= next_window_.end(); block.advance()) code(block, segment, coded);
      drop_before(block.done() ? next_window_.end() : std::min(block.begin(), next_window_.end()));
    });
    if (!block.done()) {
      // The last block goes on into the next segment, where it is hashed.
      const std::size_t rest_bytes = block.end() - segment.end();
      read(*next_, next_window_, rest_bytes);
      if (in_place_) read(*base_, base_window_, rest_bytes);
      code(block, segment, coded);
    }
    finish_group(coded);
    return coded;
  }

 private:
  std::span<const std::uint8_t> read(const ByteReader& reader, Window& window, std::size_t size_bytes) {
    const std::uint64_t begin = window.end();
    const auto bytes = window.extend(size_bytes);
    reader.read_at(begin, bytes);
    laps_.lap(Stage::read, size_bytes);
    return bytes;
  }

  void hash(Blake3Segment& segment, std::span<const std::uint8_t> bytes) {
    segment.update(bytes);
    laps_.lap(Stage::hash, bytes.size());
  }

  void drop_before(std::uint64_t offset) {
    next_window_.drop_before(offset);
    if (in_place_) base_window_.drop_before(offset);
  }

  // Blocks of one tensor that begin in the segment make a group.
  void code(const BlockWalk& block, const Segment& segment, CodedSegment& coded) {
    if (coded.empty() || coded.back().tensor != block.tensor()) {
      finish_group(coded);
      const Tensor& tensor = header_->tensors()[block.tensor()];
      const ElementType type = element_type(tensor);
      const std::uint64_t end = std::min(end_of_blocks_before(tensor, segment.end()), tensor.end);
      encoder_.begin(type, matrix_place(tensor, (block.begin() - tensor.begin) / type.width_bytes),
                     (end - block.begin()) / type.width_bytes);
      coded.push_back({block.tensor(), {}});
    }
    encoder_.add(base_of(block), next_window_.bytes(block.begin(), block.end()));
    laps_.lap(Stage::code, block.end() - block.begin());
  }

  void finish_group(CodedSegment& coded) {
    if (coded.empty()) return;
    encoder_.finish(coded.back().coded);
    laps_.lap(Stage::code, 0);
  }

  std::span<const std::uint8_t> base_of(const BlockWalk& block) {
    if (in_place_) return base_window_.bytes(block.begin(), block.end());
    const auto bytes = base_block_.of_size(block.end() - block.begin());
    const TensorSources::Place& place = sources_->places[block.tensor()];
    if (place.file != nullptr) {
      place.file->read_at(place.begin + block.begin() - header_->tensors()[block.tensor()].begin, bytes);
      laps_.lap(Stage::read, bytes.size());
    } else {
      std::ranges::fill(bytes, std::uint8_t{0});
    }
    return bytes;
  }

  const ByteReader* next_;
  const SafetensorsHeader* header_;
  const TensorSources* sources_;
  bool in_place_;
  Blake3Tree* next_tree_;
  Blake3Tree* base_tree_;
  const ByteReader* base_;  // of all of the base, in place; else null
  std::size_t piece_bytes_;
  GroupEncoder encoder_;
  Window next_window_;
  Window base_window_;  // in place
  Buffer base_block_;   // else
  StageLaps laps_;
};

bool lies_in_place(const TensorSources& sources, const SafetensorsHeader& next, std::uint64_t next_size_bytes) {
  if (sources.files.empty() || sources.files.front()->bytes().size_bytes() != next_size_bytes) return false;
  const RebuiltFile* file = sources.files.front()->file.get();
  for (std::size_t i = 0; i < sources.places.size(); ++i) {
    if (sources.places[i].file != file || sources.places[i].begin != next.tensors()[i].begin) return false;
  }
  return true;
}

std::vector<TensorChange> unchanged(const SafetensorsHeader& header, const TensorSources& sources) {
  std::vector<TensorChange> changes;
  for (const Tensor& tensor : header.tensors()) {
    TensorChange& change = changes.emplace_back();
    change.name = tensor.name;
    change.dtype = tensor.dtype->name;
    change.shape = tensor.shape;
    change.element_count = tensor.element_count();
    change.afresh = sources.places[changes.size() - 1].file == nullptr;
  }
  return changes;
}

void count_group(TensorChange& change, const CodedGroup& group) {
  change.encoded_bytes += group.parameters.size() + group.bytes.size();
  for (const CodedGroup::Block& block : group.blocks) {
    change.change_count += block.summary.changes;
    change.largest_step = std::max(change.largest_step, block.summary.largest_step);
    ++change.blocks_by_mode[static_cast<std::size_t>(block.summary.mode)];
  }
}

// Gives groups to a DeltaWriter, which wants to hear of a tensor only when something in it changed (or when it starts
// afresh): the unchanged blocks in front of the first change are held back as a number.
class EntryWriter {
 public:
  EntryWriter(DeltaWriter* writer, const std::vector<TensorChange>& tensors) : writer_(writer), tensors_(&tensors) {}

  void append(const SegmentGroup& group) {
    if (writer_ == nullptr) return;
    if (group.tensor != tensor_) {
      tensor_ = group.tensor;
      held_back_ = 0;
      begun_ = false;
    }
    const TensorChange& tensor = (*tensors_)[tensor_];
    const CodedGroup& coded = group.coded;
    if (!begun_ && coded.bytes.empty() && !tensor.afresh) {
      held_back_ += coded.blocks.size();
      return;
    }
    if (!begun_) {
      writer_->begin_tensor(tensor.name);
      writer_->append_unchanged_blocks(std::exchange(held_back_, 0));
      begun_ = true;
    }
    sizes_.clear();
    for (const CodedGroup::Block& block : coded.blocks) sizes_.push_back(block.size_bytes);
    writer_->append_group(coded.parameters, sizes_, coded.bytes);
  }

 private:
  DeltaWriter* writer_;
  const std::vector<TensorChange>* tensors_;
  std::size_t tensor_ = SIZE_MAX;
  std::uint64_t held_back_ = 0;
  bool begun_ = false;
  std::vector<std::size_t> sizes_;
};

std::span<const std::uint8_t> front_of(const std::vector<BaseFile>& base) {
  return base.empty() ? std::span<const std::uint8_t>() : base.front().file->header().front();
}

// What takes nothing from the base does not name it: it can be had without.
TensorSources needed_sources(const std::vector<BaseFile>& base, const SafetensorsHeader& header,
                             const ByteReader& next) {
  TensorSources sources = find_sources(base, header, next);
  const bool needs_tensors =
      std::ranges::any_of(sources.places, [](const auto& place) { return place.file != nullptr; });
  if (needs_tensors || std::ranges::equal(front_of(base), header.front())) return sources;
  sources.files.clear();
  sources.exceptions.clear();
  return sources;
}

FileChange diff_laid_out(const std::vector<BaseFile>& base, const std::string& path, const ByteReader* next,
                         const SafetensorsHeader& header, const std::optional<std::filesystem::path>& output,
                         BlockChoice choice, const Engine& engine, const Execution& execution,
                         const Dtype* opaque = nullptr) {
  const TensorSources sources = needed_sources(base, header, *next);
  const bool in_place = lies_in_place(sources, header, next->size_bytes());
  Blake3Tree next_tree(next->size_bytes());
  std::optional<Blake3Tree> base_tree;
  if (in_place) base_tree.emplace(next->size_bytes());
  std::optional<DeltaWriter> writer;
  if (output) writer.emplace(*output);

  FileChange change;
  change.tensors = unchanged(header, sources);
  EntryWriter entries(writer ? &*writer : nullptr, change.tensors);
  ordered_parallel(
      next_tree.segment_count(), execution,
      [&] {
        return SegmentCoder(*next, header, sources, in_place, next_tree, base_tree ? &*base_tree : nullptr, choice,
                            engine, execution.stages);
      },
      [&](std::size_t index, const CodedSegment& coded) {
        StageLaps laps(execution.stages);
        std::uint64_t coded_bytes = 0;
        for (const SegmentGroup& group : coded) {
          count_group(change.tensors[group.tensor], group.coded);
          coded_bytes += group.coded.parameters.size() + group.coded.bytes.size();
          entries.append(group);
        }
        change.encoded_bytes += coded_bytes;
        laps.lap(Stage::write, coded_bytes);
        execution.progress->advance(segment_at(next->size_bytes(), index).size_bytes);
      });

  DeltaDescription& description = change.description;
  for (const BaseFile* file : sources.files) {
    const Digest digest = in_place ? base_tree->finish() : digest_of(file->bytes(), execution);
    description.base.push_back({file->path, file->bytes().size_bytes(), digest});
  }
  description.result = {path, next->size_bytes(), next_tree.finish()};
  description.sources = sources.exceptions;
  description.opaque = opaque;
  for (const TensorChange& tensor : change.tensors) {
    description.element_count += tensor.element_count;
    description.change_count += tensor.change_count;
  }
  change.front_changed = !std::ranges::equal(front_of(base), header.front());
  if (!base.empty()) {
    for (const Tensor& tensor : base.front().file->header().tensors()) {
      if (header.find(tensor.name) == nullptr) change.removed_tensors.push_back(tensor.name);
    }
  }
  if (writer)
    change.delta.emplace(writer->finish(
        description, change.front_changed ? header.front() : std::span<const std::uint8_t>(), execution));
  return change;
}

}  // namespace

FileChange diff_file(const std::vector<BaseFile>& base, const std::string& path,
                     const std::shared_ptr<const ByteReader>& next, const std::optional<std::filesystem::path>& output,
                     BlockChoice choice, const Engine& engine, const Execution& execution) {
  return diff_laid_out(base, path, next.get(), SafetensorsHeader::read(*next), output, choice, engine, execution);
}

FileChange diff_opaque_file(const std::optional<OpaqueBase>& base, const std::string& path,
                            const std::shared_ptr<const ByteReader>& next, const Dtype& dtype,
                            const std::optional<std::filesystem::path>& output, BlockChoice choice,
                            const Engine& engine, const Execution& execution) {
  std::vector<BaseFile> files;
  if (base) files.push_back({base->path, RebuiltFile::from_bytes(base->file, next->size_bytes(), dtype), base->file});
  return diff_laid_out(files, path, next.get(), SafetensorsHeader::of_bytes(next->size_bytes(), dtype), output, choice,
                       engine, execution, &dtype);
}

}  // namespace wdelta
