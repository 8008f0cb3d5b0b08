// SPDX-License-Identifier: Apache-2.0
// BlockDecoder::apply on any bytes. An input is an element type, an element count less 1 (2 bytes), and a coded block.
#include "base/error.hpp"
#include "engine/block.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  if (size_bytes < 3) return 0;
  const auto width = static_cast<std::uint8_t>(1 << (bytes[0] & 3));
  const ElementType type = {width, (bytes[0] & 4) != 0 ? ElementKind::floating : ElementKind::integer};
  const std::size_t count = 1U + bytes[1] + 256U * bytes[2];
  // Copies of exactly their size, so that the sanitizer sees the first byte too many.
  const std::vector<std::uint8_t> coded(bytes + 3, bytes + size_bytes);

  std::vector<std::uint8_t> results[2];
  bool refused[2] = {};
  const Engine* const pair[2] = {&best_engine(), &engines().back()};
  for (int i = 0; i < 2; ++i) {
    results[i].assign(count * width, 0x3c);
    try {
      BlockDecoder(*pair[i]).apply(coded, type, results[i]);
    } catch (const Error& error) {
      if (error.fault() != Fault::corrupt) std::abort();
      refused[i] = true;
    }
  }
  if (refused[0] != refused[1] || (!refused[0] && results[0] != results[1])) std::abort();
  if (refused[0]) return 0;

  // What was taken can be coded anew, in every mode, and comes back.
  const std::vector<std::uint8_t> base(count * width, 0x3c);
  for (const BlockChoice choice :
       {BlockChoice::automatic, BlockChoice::sparse, BlockChoice::dense, BlockChoice::whole, BlockChoice::afresh}) {
    std::vector<std::uint8_t> again;
    std::vector<std::uint8_t> elements = base;
    BlockEncoder(best_engine(), choice).encode(base, results[0], type, again);
    BlockDecoder(best_engine()).apply(again, type, elements);
    if (elements != results[0]) std::abort();
  }
  return 0;
}
