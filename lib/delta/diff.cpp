// SPDX-License-Identifier: Apache-2.0
#include "delta/diff.hpp"

#include "base/parallel.hpp"
#include "base/segments.hpp"
#include "delta/device_segment_coder.hpp"
#include "delta/segment_coder.hpp"
#include "delta/tensor_sources.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

BlockMode TensorChange::main_mode() const {
  if (change_count == 0 && encoded_bytes == 0) return BlockMode::same;
  const auto first = blocks_by_mode.begin() + 1;
  return static_cast<BlockMode>(1 + (std::max_element(first, blocks_by_mode.end()) - first));
}

namespace {

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
  for (const BlockSummary& block : group.blocks) {
    change.change_count += block.changes;
    change.largest_step = std::max(change.largest_step, block.largest_step);
    ++change.blocks_by_mode[static_cast<std::size_t>(block.mode)];
  }
}

// Gives groups to a DeltaWriter, which wants to hear of a tensor only when something in it changed (or when it starts
// afresh): the unchanged blocks in front of the first change are held back as a number.
class EntryWriter {
 public:
  EntryWriter(DeltaWriter* writer, const std::vector<TensorChange>& tensors) : writer_(writer), tensors_(&tensors) {}

  void append(const TensorGroup& group) {
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
    writer_->append_group(coded);
  }

 private:
  DeltaWriter* writer_;
  const std::vector<TensorChange>* tensors_;
  std::size_t tensor_ = SIZE_MAX;
  std::uint64_t held_back_ = 0;
  bool begun_ = false;
};

std::span<const std::uint8_t> front_of(const OrderedBase& base) {
  return base.empty() ? std::span<const std::uint8_t>() : base.front().file->header().front();
}

// What takes nothing from the base does not name it: it can be had without.
TensorSources needed_sources(const OrderedBase& base, const SafetensorsHeader& header, const ByteReader& next,
                             const Execution& execution) {
  TensorSources sources = find_sources(base, header, next, execution);
  const bool needs_tensors =
      std::ranges::any_of(sources.places, [](const auto& place) { return place.file != nullptr; });
  if (needs_tensors || std::ranges::equal(front_of(base), header.front())) return sources;
  sources.files.clear();
  sources.exceptions.clear();
  return sources;
}

// On the engine's device, where it has one and a device is of use: other codings look at all bytes anyway.
template <typename Consume>
void code_segments(const SegmentCoder::Files& files, const DeltaCoding& coding, const Engine& engine,
                   const Execution& execution, Consume consume) {
  const TaskRuns runs = coding.runs.of(files.segment_count());
  const BlockChoice choice = coding.blocks;
  Device* const device = engine.device();
  if (device == nullptr || (choice != BlockChoice::automatic && choice != BlockChoice::classed)) {
    const auto make_coder = [&] { return SegmentCoder(files, choice, engine, execution.stages); };
    return ordered_in_runs(runs, execution, make_coder, consume);
  }
  const Execution limited = execution.on(std::min(execution.threads, DeviceBatches::most_threads(*device)));
  DeviceBatches batches(files, runs, *device, limited.threads);
  const auto make_coder = [&] { return DeviceSegmentCoder(batches, choice, engine, execution.stages); };
  ordered_in_runs(runs, limited, make_coder, consume);
}

FileChange diff_laid_out(const OrderedBase& base, const std::string& path, const ByteReader* next,
                         const SafetensorsHeader& header, const std::optional<std::filesystem::path>& output,
                         const DeltaCoding& coding, const Engine& engine, const Execution& execution,
                         const Dtype* opaque = nullptr) {
  const TensorSources sources = needed_sources(base, header, *next, execution);
  const std::optional<BaseStream> base_stream = BaseStream::of(sources, header);
  Blake3Tree next_tree(next->size_bytes());
  Blake3Tree base_tree(base_stream ? base_stream->file->size_bytes() : 0);
  const SegmentCoder::Files files{next, &header, &sources, base_stream, &next_tree, &base_tree};
  std::optional<DeltaWriter> writer;
  if (output) writer.emplace(*output);

  FileChange change;
  change.tensors = unchanged(header, sources);
  EntryWriter entries(writer ? &*writer : nullptr, change.tensors);
  code_segments(files, coding, engine, execution, [&](std::size_t index, const CodedSegment& coded) {
    StageLaps laps(execution.stages);
    std::uint64_t coded_bytes = 0;
    for (const TensorGroup& group : coded) {
      count_group(change.tensors[group.tensor], group.coded);
      coded_bytes += group.coded.parameters.size() + group.coded.bytes.size();
      entries.append(group);
    }
    change.encoded_bytes += coded_bytes;
    laps.lap(Stage::write, coded_bytes);
    if (index < next_tree.segment_count())
      execution.progress->advance(segment_at(next->size_bytes(), index).size_bytes);
  });

  DeltaDescription& description = change.description;
  // Only now: what was compared is what has this digest, unless the base was changed meanwhile.
  for (const BaseFile* file : sources.files) {
    const bool streamed = base_stream && file->file.get() == base_stream->file;
    const Digest digest = streamed ? base_tree.finish() : file->digest(execution);
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

FileChange diff_file(const OrderedBase& base, const std::string& path, const std::shared_ptr<const ByteReader>& next,
                     const std::optional<std::filesystem::path>& output, const DeltaCoding& coding,
                     const Engine& engine, const Execution& execution) {
  const auto header = SafetensorsHeader::read_like(*next, base.empty() ? nullptr : base.front().file->shared_header());
  return diff_laid_out(base, path, next.get(), *header, output, coding, engine, execution);
}

FileChange diff_opaque_file(const std::optional<OpaqueBase>& base, const std::string& path,
                            const std::shared_ptr<const ByteReader>& next, const Dtype& dtype,
                            const std::optional<std::filesystem::path>& output, const DeltaCoding& coding,
                            const Engine& engine, const Execution& execution) {
  std::vector<BaseFile> files;
  if (base) files.push_back({base->path, RebuiltFile::from_bytes(base->file, next->size_bytes(), dtype), base->file});
  return diff_laid_out(files, path, next.get(), SafetensorsHeader::of_bytes(next->size_bytes(), dtype), output, coding,
                       engine, execution, &dtype);
}

}  // namespace wdelta
