// SPDX-License-Identifier: Apache-2.0
// Only for the name of ZSTD_c_literalCompressionMode; every function used is in the stable part.
#define ZSTD_STATIC_LINKING_ONLY
#include "engine/frame.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <vector>
#include <zstd.h>

namespace wdelta {
namespace {

void require(std::size_t result) {
  if (ZSTD_isError(result)) throw Error(Fault::internal, "", std::string("zstd: ") + ZSTD_getErrorName(result));
}

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", what); }

}  // namespace

bool has_frames() { return true; }

// Level 1; for symbols without the search for repeats: gaps and steps hold none worth a sequence, and on a recorded run
// (2.8 % of the elements changed) Huffman coding alone is 0.6 bit per change smaller and 1.7 times faster. The largest
// stride and the smallest table switch the search off; what zstd would take that for, no Huffman coding either, has to
// be undone by name.
FrameWriter::FrameWriter(FrameContent content) : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    require(ZSTD_CCtx_setParameter(context_.get(), parameter, value));
  };
  set(ZSTD_c_compressionLevel, content == FrameContent::bytes ? 3 : 1);
  if (content != FrameContent::symbols) return;
  set(ZSTD_c_strategy, ZSTD_fast);
  set(ZSTD_c_targetLength, ZSTD_cParam_getBounds(ZSTD_c_targetLength).upperBound);
  set(ZSTD_c_hashLog, ZSTD_cParam_getBounds(ZSTD_c_hashLog).lowerBound);
  set(ZSTD_c_minMatch, ZSTD_cParam_getBounds(ZSTD_c_minMatch).upperBound);
  set(ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
}

FrameWriter::~FrameWriter() = default;
FrameWriter::FrameWriter(FrameWriter&&) noexcept = default;
void FrameWriter::Release::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

std::size_t FrameWriter::write(std::span<const std::uint8_t> content, std::span<const std::size_t> cuts,
                               std::span<std::uint8_t> frame) {
  require(ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only));
  require(ZSTD_CCtx_setPledgedSrcSize(context_.get(), content.size()));
  ZSTD_outBuffer out = {frame.data(), frame.size(), 0};
  ZSTD_inBuffer in = {content.data(), 0, 0};
  const auto feed = [&](std::size_t end, ZSTD_EndDirective directive) {
    in.size = end;
    const std::size_t left = ZSTD_compressStream2(context_.get(), &out, &in, directive);
    require(left);
    return left == 0;
  };
  for (const std::size_t cut : cuts) {
    if (!feed(cut, ZSTD_e_flush)) return 0;
  }
  return feed(content.size(), ZSTD_e_end) ? out.pos : 0;
}

FrameReader::FrameReader() : context_(ZSTD_createDCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}

FrameReader::~FrameReader() = default;
FrameReader::FrameReader(FrameReader&&) noexcept = default;
void FrameReader::Release::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

std::uint64_t FrameReader::content_bytes(std::span<const std::uint8_t> frame) {
  // The library also takes skippable frames and, when built so, frames from before the RFC.
  constexpr std::uint8_t k_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
  if (frame.size() < sizeof(k_magic) || !std::equal(std::begin(k_magic), std::end(k_magic), frame.begin())) {
    refuse("its zstd frame does not begin like one");
  }
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR) refuse("its zstd frame has a broken header");
  if (claimed == ZSTD_CONTENTSIZE_UNKNOWN) refuse("its zstd frame does not say its content size");
  const std::size_t length = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(length)) refuse("its zstd frame is broken");
  if (length != frame.size()) refuse("bytes follow its zstd frame");
  return claimed;
}

std::vector<std::uint8_t> FrameReader::content(std::span<const std::uint8_t> frame, std::uint64_t most_bytes) {
  const std::uint64_t size_bytes = content_bytes(frame);
  if (size_bytes > most_bytes)
    refuse("holds " + std::to_string(size_bytes) + " bytes, at most " + std::to_string(most_bytes) + " expected");
  std::vector<std::uint8_t> content(size_bytes);
  FrameReader().read(frame, content);
  return content;
}

void FrameReader::read(std::span<const std::uint8_t> frame, std::span<std::uint8_t> content) {
  const std::size_t result =
      ZSTD_decompressDCtx(context_.get(), content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(result)) refuse(std::string("its zstd frame cannot be read: ") + ZSTD_getErrorName(result));
  if (result != content.size()) refuse("its zstd frame is shorter than it says");
}

}  // namespace wdelta
