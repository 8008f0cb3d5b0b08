// SPDX-License-Identifier: Apache-2.0
// Files that tests make, and looking at what is there.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta::testing {

/// A new directory, gone with all that is in it when the test is over. Below $TMPDIR where that is set, else in memory
/// where there is /dev/shm: laws about work that is broken off everywhere sync thousands of files.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = std::getenv("TMPDIR") == nullptr && std::filesystem::is_directory(memory);
    std::string name = (in_memory ? memory : std::filesystem::temp_directory_path()) / "wdelta-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory: " + name);
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// Writes a file in place, making its directories.
inline void put_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}
inline void put_file(const std::filesystem::path& path, std::span<const std::uint8_t> content) {
  put_file(path, text_of(content));
}

inline std::string get_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::filesystem::file_size(path), '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size())))
    throw std::runtime_error("cannot read " + path.string());
  return content;
}

/// All files below a directory with their content, by place; without wdelta's own state.
inline std::map<std::string, std::string> files_below(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string place = entry.path().lexically_relative(directory).generic_string();
    if (place.starts_with(".wdelta/") || !entry.is_regular_file()) continue;
    files[place] = get_file(entry.path());
  }
  return files;
}

}  // namespace wdelta::testing
