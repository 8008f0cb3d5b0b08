// SPDX-License-Identifier: Apache-2.0
// usage: bench-hash-file THREADS FILE...
// Prints what b3sum prints, by the library's own reading and hashing: for timing one against the other.
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/mapped_stretch.hpp"
#include "base/reader_digest.hpp"

#include <cstdlib>
#include <fmt/format.h>

namespace {
struct Silent final : wdelta::Progress {
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
};
}  // namespace

int main(int argc, char** argv) try {
  wdelta::MappedStretch::allow();
  Silent silent;
  const wdelta::Execution execution{argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1, &silent, {}};
  for (int i = 2; i < argc; ++i) {
    const wdelta::File file = wdelta::File::open(argv[i]);
    fmt::print("{}  {}\n", wdelta::digest_of(file, execution).hex(), argv[i]);
  }
  return 0;
} catch (const wdelta::Error& error) {
  fmt::print(stderr, "{}: {}\n", error.object(), error.what());
  return 1;
}
