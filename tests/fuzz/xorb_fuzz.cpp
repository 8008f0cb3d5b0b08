// SPDX-License-Identifier: Apache-2.0
// The body of a xorb: what is taken lies inside, and can be made again from its chunks.
#include "base/error.hpp"
#include "store/xet/xorb.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  const std::span<const std::uint8_t> body(bytes, size_bytes);
  try {
    XorbBuilder builder(std::size_t{1} << 20);
    for (const XetChunk& chunk : read_xorb(body, "input")) {
      if (chunk.bytes.data() < bytes || chunk.bytes.data() + chunk.bytes.size() > bytes + size_bytes) std::abort();
      if (!builder.has_room(chunk)) return 0;
      builder.add(chunk);
    }
    if (builder.is_empty()) return 0;
    const Xorb again = builder.take();
    if (again.body.size() > size_bytes || !std::equal(again.body.begin(), again.body.end(), bytes)) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
