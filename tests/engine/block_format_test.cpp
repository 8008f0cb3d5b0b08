// SPDX-License-Identifier: Apache-2.0
// Blocks written out by hand from wdelta-delta.5, "Blocks", and blocks that it does not allow.
#include "base/error.hpp"
#include "elements.hpp"
#include "engine/block.hpp"
#include "frames.hpp"

#include <doctest/doctest.h>
#include <string>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

constexpr ElementType k_u8 = {1, ElementKind::integer};
constexpr ElementType k_u16 = {2, ElementKind::integer};
constexpr ElementType k_f32 = {4, ElementKind::floating};

Bytes applied(const Bytes& coded, ElementType type, Bytes elements) {
  for (const Engine& engine : engines()) {
    if (engine.usable()) {
      Bytes copy = elements;
      BlockDecoder(engine).apply(coded, type, copy);
      if (&engine == &engines().back()) return copy;
    }
  }
  return {};
}

/// The reason that the decoder gives for refusing, or "".
std::string refusal(const Bytes& coded, ElementType type, Bytes elements) {
  try {
    BlockDecoder(best_engine()).apply(coded, type, elements);
    return "";
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.object().empty());
    return error.what();
  }
}

/// A zstd frame of one raw block, by RFC 8878: magic, single segment with one byte of content size, block header.
Bytes raw_frame(const Bytes& content) {
  const std::size_t header = (content.size() << 3) | 1;
  Bytes frame = {0x28, 0xb5, 0x2f, 0xfd, 0x20, static_cast<std::uint8_t>(content.size())};
  for (const int shift : {0, 8, 16}) frame.push_back(static_cast<std::uint8_t>(header >> shift));
  frame.insert(frame.end(), content.begin(), content.end());
  return frame;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("an empty block changes nothing") { CHECK(applied({}, k_bf16, {1, 2, 3, 4}) == Bytes{1, 2, 3, 4}); }

TEST_CASE("a sparse block: 2 changes, gaps 1 and 2, steps 1 and 2" * testing::needs_frames()) {
  const Bytes base(16);
  // +0 moves down to -0, and up to the smallest number above.
  const Bytes next = {0, 0, 0x00, 0x80, 0, 0, 0, 0, 0x01, 0x00, 0, 0, 0, 0, 0, 0};
  const Bytes coded = {0x11, 0x02, 0x01, 0x02, 0x00, 0x01};
  CHECK(applied(coded, k_bf16, base) == next);
  CHECK(applied(Bytes{0x01, 0x02} + raw_frame({0x01, 0x02, 0x00, 0x01}), k_bf16, base) == next);

  Bytes encoded;
  BlockEncoder(best_engine()).encode(base, next, k_bf16, encoded);
  CHECK(encoded == coded);
}

TEST_CASE("gaps of 255 and more: the byte 255, then the gap less 255 in 2 bytes") {
  Bytes next(600);
  next[255] = 1;
  next[599] = 0xff;
  // Gaps 255 and 343; steps 2 and 1.
  const Bytes coded = {0x11, 0x02, 0xff, 0xff, 0x01, 0x00, 0x00, 0x00, 0x58, 0x00};
  CHECK(applied(coded, k_u8, Bytes(600)) == next);
  Bytes whole_block(65536);
  whole_block.back() = 1;
  CHECK(applied({0x11, 0x01, 0xff, 0x01, 0x00, 0xff}, k_u8, Bytes(65536)) == whole_block);
}

TEST_CASE("steps of 256 and more: the byte 255, then the step less 256 in the element's width") {
  // Steps 255, 256 and 65535: 128 down, 128 up, 32768 down.
  const Bytes coded = {0x11, 0x03, 0x00, 0x00, 0x00, 0xfe, 0xff, 0xff, 0x00, 0x00, 0xff, 0xfe};
  CHECK(applied(coded, k_u16, Bytes(6)) == Bytes{0x80, 0xff, 0x80, 0x00, 0x00, 0x80});
  // 2^24 up is the step 2^25; from +0, the float with those bits.
  CHECK(applied({0x11, 0x01, 0x00, 0xff, 0x00, 0xff, 0xff, 0x01}, k_f32, Bytes(4)) == Bytes{0, 0, 0, 1});
}

TEST_CASE("a number of changes above 127 takes two digits") {
  const Bytes coded = Bytes{0x11, 0xac, 0x02} + Bytes(300, 0) + Bytes(300, 1);
  CHECK(applied(coded, k_u8, Bytes(300)) == Bytes(300, 1));
  const Bytes full = Bytes{0x11, 0x80, 0x80, 0x04} + Bytes(65536, 0) + Bytes(65536, 1);
  CHECK(applied(full, k_u8, Bytes(65536)) == Bytes(65536, 1));
}

TEST_CASE("a dense block: planes of bytes, the lowest first" * testing::needs_frames()) {
  // Steps 2, 0 and 0x0102: 1 up, nothing, 129 up.
  const Bytes planes = {0x02, 0x00, 0x02, 0x00, 0x00, 0x01};
  const Bytes next = {0x01, 0x10, 0x00, 0x20, 0x81, 0x30};
  CHECK(applied(Bytes{0x12} + planes, k_u16, {0, 0x10, 0, 0x20, 0, 0x30}) == next);
  CHECK(applied(Bytes{0x02} + raw_frame(planes), k_u16, {0, 0x10, 0, 0x20, 0, 0x30}) == next);
}

TEST_CASE("a whole block: the elements as they are" * testing::needs_frames()) {
  CHECK(applied({0x13, 9, 8, 7, 6}, k_bf16, {1, 2, 3, 4}) == Bytes{9, 8, 7, 6});
  CHECK(applied(Bytes{0x03} + raw_frame({9, 8, 7, 6}), k_bf16, {1, 2, 3, 4}) == Bytes{9, 8, 7, 6});
}

TEST_CASE("an afresh block: the steps from zero bits in planes, the highest first, each stored or a frame" *
          testing::needs_frames()) {
  // 0.5, -0.5 and 0.75 are 3f00, bf00 and 3f40; their steps from zero 7e00, 7e01 and 7e80.
  const Bytes next = {0x00, 0x3f, 0x00, 0xbf, 0x40, 0x3f};
  const Bytes base = {1, 2, 3, 4, 5, 6};
  CHECK(applied({0x05, 0x00, 0, 0x7e, 0x7e, 0x7e, 0, 0x00, 0x01, 0x80}, k_bf16, base) == next);
  CHECK(applied(Bytes{0x05, 0x00, 0, 0x7e, 0x7e, 0x7e, 12} + raw_frame({0x00, 0x01, 0x80}), k_bf16, base) == next);
  // The first two bits, 01, are the same in all: 11111000, 11111000, 11111010, and below 000000, 000001, 000000 (which
  // are packed to 000000 100000 000000).
  const Bytes shifted = {0x05, 0x0a, 0, 0xf8, 0xf8, 0xfa, 0, 0x40, 0x00, 0x00};
  CHECK(applied(shifted, k_bf16, base) == next);
  CHECK(applied({0x05, 0x00, 0, 4, 5, 6}, k_u8, {1, 2, 3}) == Bytes{2, 0xfd, 3});
  CHECK(applied({0x05, 0x00, 0, 0x7e, 0, 0x01, 0, 0x02, 0, 0x04}, k_f32, Bytes(4)) == Bytes{0x02, 0x81, 0x00, 0x3f});
}

TEST_CASE("afresh blocks that the page does not allow are refused" * testing::needs_frames()) {
  const Bytes plane = {0, 1, 2};  // of two numbers of eight bits
  CHECK(refusal(Bytes{0x05, 0x00} + plane + plane, k_bf16, Bytes(4)) == "");
  CHECK(refusal({0x05}, k_bf16, Bytes(4)) == "cut: 1 bytes expected, 0 left");
  CHECK(refusal({0x05, 0x00}, k_bf16, Bytes(4)) == "cut: 1 bytes expected, 0 left");
  CHECK(refusal(Bytes{0x05, 0x00} + plane, k_bf16, Bytes(4)) == "cut: 1 bytes expected, 0 left");
  CHECK(refusal(Bytes{0x05, 0x00} + plane + Bytes{0, 1}, k_bf16, Bytes(4)) == "cut: 2 bytes expected, 1 left");
  CHECK(refusal(Bytes{0x05, 0x00} + plane + Bytes{9, 1}, k_bf16, Bytes(4)) == "cut: 9 bytes expected, 1 left");
  CHECK(refusal(Bytes{0x05, 0x00} + plane + plane + Bytes{0}, k_bf16, Bytes(4)) == "bytes follow its planes");
  for (const int head : {0x06, 0x07, 0x08, 0xf8, 0x11, 0x22}) {
    const Bytes coded = Bytes{0x05, static_cast<std::uint8_t>(head)} + plane + plane;
    CHECK(refusal(coded, k_bf16, Bytes(4)) == "its first bits are out of range");
  }
  CHECK(refusal(Bytes{0x05, 0x01} + plane, k_u8, Bytes(2)) == "its first bits are out of range");
  // Two numbers of three bits: six of eight bits are used.
  CHECK(refusal(Bytes{0x05, 0xfd} + plane + Bytes{0, 0x3f}, k_bf16, Bytes(4)) == "");
  CHECK(refusal(Bytes{0x05, 0xfd} + plane + Bytes{0, 0x40}, k_bf16, Bytes(4)) ==
        "a plane ends with bits that mean nothing");
  const auto framed = [&](const Bytes& numbers) {
    const Bytes frame = raw_frame(numbers);
    return Bytes{0x05, 0x05} + plane + Bytes{static_cast<std::uint8_t>(frame.size())} + frame;
  };
  CHECK(refusal(framed({7, 0}), k_bf16, Bytes(4)) == "");
  CHECK(refusal(framed({0, 8}), k_bf16, Bytes(4)) == "a plane has numbers that are too large");
  CHECK(refusal(framed({0, 1, 2}), k_bf16, Bytes(4)) == "a plane has not a number for each element");
  CHECK(refusal(framed({0}), k_bf16, Bytes(4)) == "a plane has not a number for each element");
}

TEST_CASE("modes and bits that mean nothing are refused") {
  CHECK(refusal({0x00}, k_u8, Bytes(4)) == "its mode 0 is unknown");
  CHECK(refusal({0x10}, k_u8, Bytes(4)) == "its mode 0 is unknown");
  CHECK(refusal({0x04, 1, 2, 3, 4}, k_u8, Bytes(4)) == "its mode 4 is unknown");
  CHECK(refusal({0x14, 1, 2, 3, 4}, k_u8, Bytes(4)) == "its mode 4 is unknown");
  CHECK(refusal({0x15, 0, 0, 1, 2, 3, 4}, k_u8, Bytes(4)) == "it sets bits that are kept for later versions");
  for (int mode = 6; mode < 16; ++mode) {
    const auto first = static_cast<std::uint8_t>(0x10 + mode);
    CHECK(refusal({first, 1, 2, 3, 4}, k_u8, Bytes(4)) == "its mode " + std::to_string(mode) + " is unknown");
  }
  for (const int bit : {0x20, 0x40, 0x80}) {
    const auto first = static_cast<std::uint8_t>(0x13 | bit);
    CHECK(refusal({first, 1, 2, 3, 4}, k_u8, Bytes(4)) == "it sets bits that are kept for later versions");
  }
}

TEST_CASE("a number of changes that cannot be is refused") {
  CHECK(refusal({0x11}, k_u8, Bytes(4)) == "its number of changes is cut off");
  CHECK(refusal({0x11, 0x80}, k_u8, Bytes(4)) == "its number of changes is cut off");
  CHECK(refusal({0x11, 0x81, 0x00, 0, 1}, k_u8, Bytes(4)) == "its number of changes is longer than needed");
  CHECK(refusal({0x11, 0x80, 0x80, 0x80, 0x01}, k_u8, Bytes(4)) == "its number of changes is out of range");
  CHECK(refusal({0x11, 0x00}, k_u8, Bytes(4)) == "it claims 0 changes in 4 elements");
  CHECK(refusal({0x11, 0x05, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, k_u8, Bytes(4)) == "it claims 5 changes in 4 elements");
  CHECK(refusal({0x11, 0x81, 0x80, 0x04}, k_u8, Bytes(65536)) == "it claims 65537 changes in 65536 elements");
}

TEST_CASE("streams of another length than the mode asks for are refused" * testing::needs_frames()) {
  CHECK(refusal({0x11, 0x01, 0x00}, k_u8, Bytes(4)).find("its streams have 1 bytes") == 0);
  CHECK(refusal({0x11, 0x01, 0x00, 0x01, 0x00}, k_u8, Bytes(4)) == "its streams have the wrong length");
  CHECK(refusal({0x11, 0x01, 0xff, 0x01}, k_u8, Bytes(999)) == "its streams have the wrong length");
  CHECK(refusal({0x11, 0x01, 0xff, 0x01, 0x00}, k_u8, Bytes(999)) == "its streams have the wrong length");
  CHECK(refusal({0x11, 0x01, 0x00, 0xff, 0x00}, k_u16, Bytes(8)) == "its streams have the wrong length");
  CHECK(refusal({0x12, 0, 0, 0}, k_u16, Bytes(4)).find("its streams have 3 bytes") == 0);
  CHECK(refusal({0x13, 0, 0, 0, 0, 0}, k_u16, Bytes(4)).find("its streams have 5 bytes") == 0);
  CHECK(refusal(Bytes{0x03} + raw_frame({1, 2, 3}), k_u16, Bytes(4)).find("its streams have 3 bytes") == 0);
}

TEST_CASE("changes outside the block and steps beyond the element are refused") {
  CHECK(refusal({0x11, 0x01, 0x04, 0x01}, k_u8, Bytes(4)) == "a change lies outside the block");
  CHECK(refusal({0x11, 0x02, 0x02, 0x01, 0x01, 0x01}, k_u8, Bytes(4)) == "a change lies outside the block");
  CHECK(refusal({0x11, 0x01, 0xff, 0x01, 0x01, 0xff}, k_u8, Bytes(65536)) == "a change lies outside the block");
  // In 32 bits these gaps would come round to a position inside.
  const Bytes round = Bytes{0x11, 0x80, 0x80, 0x04} + Bytes(65536, 0xff) + Bytes(65536, 1) + Bytes(131072, 0xff);
  CHECK(refusal(round, k_u8, Bytes(65536)) == "a change lies outside the block");
  CHECK(refusal({0x11, 0x01, 0x00, 0xff, 0x00}, k_u8, Bytes(4)) == "a step is wider than the element");
  CHECK(refusal({0x11, 0x01, 0x00, 0xff, 0x00, 0xff}, k_u16, Bytes(8)) == "a step is wider than the element");
  CHECK(refusal({0x11, 0x01, 0x00, 0xff, 0xff, 0xfe}, k_u16, Bytes(8)) == "");
}

TEST_CASE("only one zstd frame that says its content size is taken" * testing::needs_frames()) {
  const Bytes four = {9, 8, 7, 6};
  const Bytes frame = raw_frame(four);
  CHECK(refusal({0x03}, k_u8, four) == "its zstd frame does not begin like one");
  CHECK(refusal(Bytes{0x03} + frame + Bytes{0}, k_u8, four) == "bytes follow its zstd frame");
  CHECK(refusal(Bytes{0x03} + frame + raw_frame({}), k_u8, four) == "bytes follow its zstd frame");
  // A skippable frame holds nothing; so would no content at all.
  CHECK(refusal({0x03, 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, k_u8, {}) == "its zstd frame does not begin like one");
  // The same frame with a window instead of a content size.
  CHECK(refusal({0x03, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00, 0x21, 0, 0, 9, 8, 7, 6}, k_u8, four) ==
        "its zstd frame does not say its content size");
  // It claims more, or less, than its block holds.
  Bytes claims_more = frame;
  claims_more[5] = 5;
  CHECK(refusal(Bytes{0x03} + claims_more, k_u8, Bytes(5)).find("its zstd frame") == 0);
  Bytes claims_less = frame;
  claims_less[5] = 3;
  CHECK(refusal(Bytes{0x03} + claims_less, k_u8, Bytes(3)).find("its zstd frame") == 0);
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK(refusal(Bytes{0x03} + cut, k_u8, four).find("its zstd frame") == 0);
  }
}

}  // namespace wdelta
