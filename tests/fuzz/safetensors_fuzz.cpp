// SPDX-License-Identifier: Apache-2.0
// SafetensorsHeader::read on any bytes: what it takes tiles the file.
#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  const MemoryReader file(std::vector<std::uint8_t>(bytes, bytes + size_bytes), "input");
  try {
    const SafetensorsHeader header = SafetensorsHeader::read(file);
    std::uint64_t at = header.front().size();
    for (const Tensor& tensor : header.tensors()) {
      if (tensor.begin != at || tensor.end < at || header.find(tensor.name) != &tensor) std::abort();
      if (tensor.element_count() * tensor.dtype->width_bytes != tensor.size_bytes()) std::abort();
      at = tensor.end;
    }
    if (at != size_bytes) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) std::abort();
  }
  return 0;
}
