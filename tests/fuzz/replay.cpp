// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target, without a fuzzer, on every file of a corpus, and on each file's beginnings.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes);

int main(int count, char** words) {
  std::size_t files = 0;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(words[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      constexpr std::size_t k_beginnings = 64;
      const std::size_t step = bytes.size() / k_beginnings + 1;
      for (std::size_t size = 0; size < bytes.size(); size += step) LLVMFuzzerTestOneInput(bytes.data(), size);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++files;
    }
  }
  std::printf("%zu inputs\n", files);
  return files == 0 ? 1 : 0;
}
