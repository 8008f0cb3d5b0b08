// SPDX-License-Identifier: Apache-2.0
#include "make_run/output_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace wdelta::make_run {

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail();
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write_at(std::uint64_t offset, const void* bytes, std::size_t size_bytes) const {
  const char* rest = static_cast<const char*>(bytes);
  while (size_bytes > 0) {
    const ::ssize_t written = ::pwrite(descriptor_, rest, size_bytes, static_cast<::off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    rest += written;
    offset += static_cast<std::uint64_t>(written);
    size_bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
}

void OutputFile::fail() const { throw std::system_error(errno, std::generic_category(), path_.string()); }

}  // namespace wdelta::make_run
