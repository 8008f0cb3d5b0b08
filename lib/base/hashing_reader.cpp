// SPDX-License-Identifier: Apache-2.0
#include "base/hashing_reader.hpp"

#include "base/cpu.hpp"
#include "base/segments.hpp"

#include <algorithm>

namespace wdelta {

namespace {

// Mapped at a time, a run of segments: to take pages back means to interrupt every other thread's processor (Xeon 6,
// two threads, diff: 4 % more time by 8 MiB at a time). Where many threads do they have less each.
constexpr std::size_t k_most_mapped_bytes = std::size_t{32} << 20;

std::size_t bytes_to_map() {
  constexpr std::size_t k_segment_bytes = Blake3Tree::k_segment_bytes;
  const std::size_t share = MappedStretch::share_bytes() / k_segment_bytes * k_segment_bytes;
  return std::clamp(share, k_segment_bytes, k_most_mapped_bytes);
}

// What has to come from a disk comes best by read(2), and most likely so does what follows it.
constexpr std::size_t k_segments_read_after_miss = 8;

// Where BLAKE3's rounds leave the processor time to copy, that costs less than read(2)'s copy before (make bench
// ONLY=blake3, Zen 4, seconds a GiB: 0.18 mapped, 0.24 read). Diff by hand, seconds of processor time: of 2 GiB on Zen
// 4 1.03 mapped and 1.22 read, from small pages of the cache 1.27 and 1.33; of 1 GiB on Zen 3, which has no AVX-512,
// 0.99 and 1.18, but from small pages 1.28 and 1.22. By earlier programs, of other pairs, seconds: Xeon 6 0.36 and
// 0.42; but Zen 5, with four ports, 0.30 and 0.20. Where nobody wants a copy all of read(2)'s is saved: the same bench
// 0.18 and 0.25, verify of 2 GiB by hand with AVX2 alone 0.61 and 0.70. On Zen 5, where BLAKE3 is nearly as fast as
// memory, nobody has measured that.
bool is_mapping_faster() { return !cpu_features().avx512 || cpu_features().avx512_on_two_ports; }

}  // namespace

HashingReader::HashingReader(const ByteReader& file, Mapping mapping) : file_(&file), mapping_(mapping) {}

void HashingReader::enter(std::size_t index) {
  if (index_ == index) return;
  index_ = index;
  is_mapped_ = false;
  if (mapping_ == Mapping::where_faster && !is_mapping_faster()) return;
  if (segments_to_read_ > 0) {
    --segments_to_read_;
    return;
  }
  is_mapped_ = bring(segment_at(file_->size_bytes(), index));
  if (!is_mapped_) segments_to_read_ = k_segments_read_after_miss;
}

bool HashingReader::bring(const Segment& segment) {
  if (!mapped_ || segment.begin < mapped_begin_ || segment.end() > mapped_begin_ + mapped_->size_bytes()) {
    mapped_.reset();  // before the next, so that no more than one is mapped
    mapped_begin_ = segment.begin;
    mapped_ = file_->map(segment.begin, static_cast<std::size_t>(std::min<std::uint64_t>(
                                            bytes_to_map(), file_->size_bytes() - segment.begin)));
  }
  if (!mapped_) return false;
  if (mapped_->bring(static_cast<std::size_t>(segment.begin - mapped_begin_), segment.size_bytes)) return true;
  has_missed_ = true;
  return false;
}

template <typename Work>
bool HashingReader::in_place(std::uint64_t offset, Work work) {
  is_mapped_ = is_mapped_ && mapped_->read(static_cast<std::size_t>(offset - mapped_begin_), work);
  return is_mapped_;
}

void HashingReader::read(std::uint64_t offset, std::span<std::uint8_t> bytes, Blake3Segment& hash, StageLaps& laps) {
  if (bytes.empty()) return;
  enter(static_cast<std::size_t>(offset / Blake3Tree::k_segment_bytes));
  while (is_mapped_ && !bytes.empty()) {
    const auto copy = bytes.first(std::min(bytes.size(), Blake3Segment::k_group_bytes));
    laps.lap(Stage::read, copy.size());
    if (!in_place(offset, [&](const std::uint8_t* from) { hash.copy_and_update(from, copy); })) break;
    laps.lap(Stage::hash, copy.size());
    offset += copy.size();
    bytes = bytes.subspan(copy.size());
  }
  if (bytes.empty()) return;
  file_->read_at(offset, bytes);
  laps.lap(Stage::read, bytes.size());
  hash.update(bytes);
  laps.lap(Stage::hash, bytes.size());
}

void HashingReader::hash(std::size_t index, Buffer& memory, Blake3Segment& hash, StageLaps& laps) {
  enter(index);
  for_each_piece(segment_at(file_->size_bytes(), index), file_->piece_bytes(), [&](const Segment& piece) {
    const bool may_stay = is_mapped_ && hash.is_subtree() && piece.size_bytes <= Blake3Segment::k_group_bytes;
    if (may_stay) laps.lap(Stage::read, piece.size_bytes);
    if (may_stay && in_place(piece.begin, [&](const std::uint8_t* from) {
          hash.update_in_place({from, piece.size_bytes});
        })) {
      laps.lap(Stage::hash, piece.size_bytes);
    } else {
      read(piece.begin, memory.of_size(piece.size_bytes), hash, laps);
    }
  });
}

}  // namespace wdelta
