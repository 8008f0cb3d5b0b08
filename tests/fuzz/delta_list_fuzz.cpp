// SPDX-License-Identifier: Apache-2.0
// The list of a directory delta, its seal put right: what is taken can be written and read again, and leads nowhere.
#include "base/error.hpp"
#include "base/path.hpp"
#include "delta/delta_list.hpp"
#include "fuzz/reseal.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  try {
    const DeltaList list = delta_list_from(fuzz::resealed_text(bytes, size_bytes), "input");
    const std::string text = to_text(list);
    if (to_text(delta_list_from(text, "again")) != text) std::abort();
    for (const ListedFile& file : list.files) {
      if (why_not_a_place(file.identity.path) != nullptr) std::abort();
    }
    for (const std::string& path : list.removed) {
      if (why_not_a_place(path) != nullptr) std::abort();
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
