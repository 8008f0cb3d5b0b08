// SPDX-License-Identifier: Apache-2.0
// In place of frame.cpp in a build of the engine alone on a machine without zstd: nothing is worth a frame, and none
// can be read. Such a build is for tests of the engine; it writes no deltas for others.
#include "base/error.hpp"
#include "engine/frame.hpp"

namespace wdelta {
namespace {

[[noreturn]] void refuse() {
  throw Error(Fault::unsupported, "", "a zstd frame cannot be read: this build has no zstd",
              "build it where zstd's headers and pkg-config are (libzstd-dev)");
}

}  // namespace

bool has_frames() { return false; }

FrameWriter::FrameWriter(FrameContent) {}
FrameWriter::~FrameWriter() = default;
FrameWriter::FrameWriter(FrameWriter&&) noexcept = default;
void FrameWriter::Release::operator()(ZSTD_CCtx_s*) const {}
std::size_t FrameWriter::write(std::span<const std::uint8_t>, std::span<const std::size_t>, std::span<std::uint8_t>) {
  return 0;
}

FrameReader::FrameReader() = default;
FrameReader::~FrameReader() = default;
FrameReader::FrameReader(FrameReader&&) noexcept = default;
void FrameReader::Release::operator()(ZSTD_DCtx_s*) const {}
std::uint64_t FrameReader::content_bytes(std::span<const std::uint8_t>) { refuse(); }
std::vector<std::uint8_t> FrameReader::content(std::span<const std::uint8_t>, std::uint64_t) { refuse(); }
void FrameReader::read(std::span<const std::uint8_t>, std::span<std::uint8_t>) { refuse(); }

}  // namespace wdelta
