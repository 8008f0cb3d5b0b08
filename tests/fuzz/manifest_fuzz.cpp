// SPDX-License-Identifier: Apache-2.0
// manifest_from on any bytes: what it takes can be written and read again, and leads nowhere.
#include "base/error.hpp"
#include "base/path.hpp"
#include "repo/manifest.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  try {
    const Manifest manifest = manifest_from({reinterpret_cast<const char*>(bytes), size_bytes}, "input");
    const std::string text = to_text(manifest);
    if (to_text(manifest_from(text, "again")) != text) std::abort();
    for (const ManifestFile& file : manifest.files) {
      if (why_not_a_place(file.identity.path) != nullptr || manifest.find(file.identity.path) != &file) std::abort();
    }
    ancestors_of_child(Digest(), manifest);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
