// SPDX-License-Identifier: Apache-2.0
#include "delta/device_segment_writer.hpp"

#include "base/segments.hpp"

#include <algorithm>

namespace wdelta {
namespace {

// What a thread takes on the device, about.
constexpr std::uint64_t k_thread_memory_bytes = std::uint64_t{16} << 20;

}  // namespace

DeviceSegmentWriter::DeviceSegmentWriter(const Files& files, Device& device, StageClock* stages)
    : files_(files),
      stream_(device.make_stream()),
      rebuilder_(std::make_unique<DeviceRebuilder>(*files.rebuilt->engine(), device)),
      on_device_(device, DeviceBuffer::Place::device),
      on_host_(device, DeviceBuffer::Place::pinned),
      digests_(device),
      laps_(stages) {}

DeviceSegmentWriter::~DeviceSegmentWriter() {
  if (stream_) settle(*stream_);
}

unsigned DeviceSegmentWriter::most_threads(Device& device) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(device.memories().room_bytes() / 2 / k_thread_memory_bytes, 1, 1024));
}

void DeviceSegmentWriter::operator()(std::size_t index) {
  laps_.restart();
  const Segment segment = segment_at(files_.rebuilt->size_bytes(), index);
  const DeviceRebuilder::Part part{segment.begin, on_device_.of_size(segment.size_bytes), segment.size_bytes};
  const std::span<std::uint8_t> on_host(on_host_.of_size(segment.size_bytes), segment.size_bytes);
  if (files_.origin != nullptr) {
    files_.origin->read_at(segment.begin, on_host);
    laps_.lap(Stage::read, segment.size_bytes);
    stream_->upload(part.bytes, on_host.data(), segment.size_bytes);
    if (files_.origin_tree->is_subtree(index)) {
      digests_.ask(DeviceDigests::End::base, index, 1, part.bytes, *stream_);
    } else {
      files_.origin_tree->set_segment(index, on_host);
      laps_.lap(Stage::hash, segment.size_bytes);
    }
    rebuilder_->patch(*files_.rebuilt, part, on_host, *stream_);
  } else {
    rebuilder_->read(*files_.rebuilt, part, *stream_);
  }
  const bool is_subtree = files_.result_tree->is_subtree(index);
  if (is_subtree) digests_.ask(DeviceDigests::End::result, index, 1, part.bytes, *stream_);
  if (!is_subtree || files_.output != nullptr) stream_->download(on_host.data(), part.bytes, segment.size_bytes);
  laps_.lap(Stage::code, segment.size_bytes);
  rebuilder_->finish(*stream_);
  laps_.lap(Stage::wait);
  if (files_.origin != nullptr && files_.origin_tree->is_subtree(index))
    take_digest(DeviceDigests::End::base, *files_.origin_tree);
  if (is_subtree) {
    take_digest(DeviceDigests::End::result, *files_.result_tree);
  } else {
    files_.result_tree->set_segment(index, on_host);
    laps_.lap(Stage::hash, segment.size_bytes);
  }
  if (files_.output == nullptr) return;
  files_.output->write_at(segment.begin, on_host);
  laps_.lap(Stage::write, segment.size_bytes);
}

void DeviceSegmentWriter::take_digest(DeviceDigests::End end, Blake3Tree& tree) {
  digests_.take(end, tree);
  laps_.lap(Stage::hash, Blake3Tree::k_segment_bytes);
}

}  // namespace wdelta
