// SPDX-License-Identifier: Apache-2.0
// An ignore file and a path behind its last NUL: answered in bounded time, and an include of everything changes
// nothing.
#include "base/error.hpp"
#include "checkpoint/path_filter.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  const std::string_view input(reinterpret_cast<const char*>(bytes), size_bytes);
  const std::size_t nul = input.rfind('\0');
  if (nul == std::string_view::npos) return 0;
  const std::string_view lines = input.substr(0, nul);
  const std::string_view path = input.substr(nul + 1);
  try {
    PathFilter filter;
    filter.exclude_lines(lines);
    const bool taken = filter.takes(path);
    filter.include("**");
    if (!path.empty() && filter.takes(path) != taken) std::abort();
    filter.exclude("*");
    if (!path.empty() && path.find('/') == std::string_view::npos && filter.takes(path)) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::usage) std::abort();
  }
  return 0;
}
