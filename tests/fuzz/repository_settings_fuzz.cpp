// SPDX-License-Identifier: Apache-2.0
// The settings of a repository, wdelta.json, their seal put right: what is taken is within its bounds, and can be
// written and read again.
#include "base/ascii.hpp"
#include "base/error.hpp"
#include "fuzz/reseal.hpp"
#include "repo/repository_settings.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  try {
    const RepositorySettings settings = settings_from(fuzz::resealed_text(bytes, size_bytes), "input");
    if (!is_hex(settings.id, 32)) std::abort();
    if (settings.contest) {
      for (const auto time : {settings.contest->settle, settings.contest->tick}) {
        if (time.count() < 1 || time.count() > 600'000) std::abort();
      }
    }
    const std::string text = to_text(settings);
    if (to_text(settings_from(text, "again")) != text) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
