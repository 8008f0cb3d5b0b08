// SPDX-License-Identifier: Apache-2.0
#include "base/shared_digest.hpp"

#include "base/blake3.hpp"
#include "base/file.hpp"
#include "testing/counting_reader.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <chrono>
#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace wdelta {

using namespace testing;

namespace {

/// Says what it is told of when it changed.
class DatedReader final : public ByteReader {
 public:
  explicit DatedReader(std::string_view text) : bytes_(bytes_of(text), "dated") {}
  std::uint64_t size_bytes() const override { return bytes_.size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    ++reads;
    bytes_.read_at(offset, bytes);
  }
  const std::string& name() const override { return bytes_.name(); }
  std::optional<std::int64_t> changed_ns() const override { return changed; }

  mutable int reads = 0;
  std::optional<std::int64_t> changed = 0;

 private:
  MemoryReader bytes_;
};

void wait_until_settled(const File& file) {
  while (file.changed_ns().value() >= std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// Other bytes in the same file, whose mtime does not tell.
void change_behind_its_mtime(const std::filesystem::path& path, std::string_view text) {
  struct stat before {};
  REQUIRE(::stat(path.c_str(), &before) == 0);
  const int fd = ::open(path.c_str(), O_WRONLY);
  REQUIRE(fd >= 0);
  REQUIRE(::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(::futimens(fd, times) == 0);
  ::close(fd);
}

}  // namespace

TEST_CASE("a shared digest is read once while nothing can have changed, and each time where that is not known") {
  const Digest expected = blake3(bytes_of("some bytes"));
  const SilentExecution execution(1);
  SharedDigest digest;
  DatedReader dated("some bytes");
  for (int i = 0; i < 3; ++i) CHECK(digest.of(dated, execution) == expected);
  CHECK(dated.reads == 1);
  dated.changed = 5;
  for (int i = 0; i < 3; ++i) CHECK(digest.of(dated, execution) == expected);
  CHECK(dated.reads == 2);
  dated.changed = std::nullopt;
  for (int i = 0; i < 3; ++i) CHECK(digest.of(dated, execution) == expected);
  CHECK(dated.reads == 5);
  dated.changed = INT64_MAX;  // later than now: it may change once more, unseen
  for (int i = 0; i < 3; ++i) CHECK(digest.of(dated, execution) == expected);
  CHECK(dated.reads == 8);
}

TEST_CASE("a shared digest of a file that changes in between is that of the new bytes, whatever its mtime says") {
  const ScratchDirectory scratch;
  put_file(scratch / "file", "old bytes");
  const auto file = std::make_shared<File>(File::open(scratch / "file"));
  const CountingReader reader(file);
  wait_until_settled(*file);
  const SilentExecution execution(1);
  SharedDigest digest;
  for (int i = 0; i < 3; ++i) CHECK(digest.of(reader, execution) == blake3(bytes_of("old bytes")));
  CHECK(reader.read_bytes() == 9);
  change_behind_its_mtime(scratch / "file", "new bytes");
  file->check_unchanged();  // which goes by less
  CHECK(digest.of(reader, execution) == blake3(bytes_of("new bytes")));
}

}  // namespace wdelta
