// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace wdelta::make_run {

/// A new file, written at any offsets by any threads. Every failure is a std::runtime_error that names the file.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void write_at(std::uint64_t offset, const void* bytes, std::size_t size_bytes) const;
  /// Reports what the destructor would have to ignore.
  void close();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace wdelta::make_run
