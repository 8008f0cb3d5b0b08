// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include "base/output_directory.hpp"
#include "base/output_file.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <ctime>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>

namespace wdelta {

namespace fs = std::filesystem;
using testing::fault_of;
using testing::get_file;
using testing::put_file;
using testing::ScratchDirectory;

namespace {

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }

 private:
  mode_t before_;
};

std::ptrdiff_t entries_in(const fs::path& directory) {
  return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

constexpr Durability k_durabilities[] = {Durability::cached, Durability::synced};
constexpr Overwrite k_overwrites[] = {Overwrite::no, Overwrite::no_rivals, Overwrite::yes};

}  // namespace

TEST_CASE("an output file is absent before its commit, whole after it, and leaves nothing else behind") {
  for (const Durability durability : k_durabilities) {
    for (const Overwrite overwrite : k_overwrites) {
      ScratchDirectory scratch;
      const fs::path path = scratch / "out";
      {
        OutputFile output(path);
        output.append("hello, ");
        output.append("world");
        CHECK(output.appended_bytes() == 12);
        CHECK_FALSE(fs::exists(path));
        output.commit(overwrite, durability);
        CHECK(get_file(path) == "hello, world");
      }
      CHECK(entries_in(scratch.path()) == 1);
    }
  }
}

TEST_CASE("an output file that is never committed leaves nothing, and what was there stays") {
  ScratchDirectory scratch;
  put_file(scratch / "out", "old");
  {
    OutputFile output(scratch / "out");
    output.append("new");
    OutputFile moved = std::move(output);
    moved.append("er");
  }
  CHECK(get_file(scratch / "out") == "old");
  CHECK(entries_in(scratch.path()) == 1);
}

TEST_CASE("committing onto a name that is taken replaces it or throws conflict, as asked") {
  for (const Durability durability : k_durabilities) {
    ScratchDirectory scratch;
    write_file(scratch / "out", "one", Overwrite::no, durability);
    for (const Overwrite overwrite : {Overwrite::no, Overwrite::no_rivals}) {
      CHECK(fault_of([&] { write_file(scratch / "out", "two", overwrite, durability); }) == Fault::conflict);
    }
    CHECK(get_file(scratch / "out") == "one");
    write_file(scratch / "out", "three", Overwrite::yes, durability);
    CHECK(get_file(scratch / "out") == "three");
    CHECK(entries_in(scratch.path()) == 1);
  }
}

TEST_CASE("a commit that fails leaves nothing behind") {
  ScratchDirectory scratch;
  fs::create_directories(scratch / "taken/inside");
  for (const Overwrite overwrite : k_overwrites) {
    CHECK(fault_of([&] { write_file(scratch / "taken", "x", overwrite, Durability::cached); }).has_value());
    {
      OutputFile output(scratch / "out");
      CHECK(fault_of([&] { output.commit_as(scratch / "absent/out", overwrite, Durability::cached); }) ==
            Fault::not_found);
    }
    CHECK(entries_in(scratch.path()) == 1);
  }
  CHECK(fault_of([&] { OutputFile(scratch / "absent/out"); }) == Fault::not_found);
}

TEST_CASE("an output file can be written in any order once its size is set, and read back") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  ScratchDirectory scratch;
  const auto bytes = testing::random_bytes(random, 10'000);
  std::vector<std::size_t> begins;
  for (std::size_t begin = 0; begin < bytes.size(); begin += 700) begins.push_back(begin);
  std::shuffle(begins.begin(), begins.end(), random);
  OutputFile output(scratch / "out");
  output.reserve(bytes.size());
  for (const std::size_t begin : begins) {
    output.write_at(begin, std::span(bytes).subspan(begin, std::min<std::size_t>(700, bytes.size() - begin)));
  }
  std::vector<std::uint8_t> back(100);
  output.read_at(650, back);
  CHECK(std::equal(back.begin(), back.end(), bytes.begin() + 650));
  output.commit_as(scratch / "other", Overwrite::no, Durability::cached);
  CHECK(get_file(scratch / "other") == testing::text_of(bytes));
  CHECK_FALSE(fs::exists(scratch / "out"));
}

TEST_CASE("outputs have the modes that the umask leaves of 666 and 777") {
  for (const mode_t mask : {0, 0002, 0022, 0027, 0077}) {
    ScratchDirectory scratch;
    const Umask umask(mask);
    CAPTURE(mask);
    write_file(scratch / "plain", "x", Overwrite::no, Durability::synced);
    CHECK(mode_of(scratch / "plain") == (0666u & ~mask));
    OutputFile executable(scratch / "executable");
    executable.set_executable();
    executable.commit(Overwrite::no, Durability::cached);
    CHECK(mode_of(scratch / "executable") == (0777u & ~mask));
    OutputDirectory directory(scratch / "directory");
    directory.commit();
    CHECK(mode_of(scratch / "directory") == (0777u & ~mask));
  }
}

TEST_CASE("threads that make outputs at once leave the umask alone") {
  ScratchDirectory scratch;
  const Umask umask(0027);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) OutputFile(scratch / ("out" + std::to_string(thread)));
    });
  }
  threads.clear();
  const mode_t after = ::umask(0027);
  CHECK(after == 0027);
}

TEST_CASE("an output directory appears with all that is in it, or not at all") {
  ScratchDirectory scratch;
  {
    OutputDirectory directory(scratch / "out");
    put_file(directory.inside() / "a/b", "x");
    CHECK_FALSE(fs::exists(scratch / "out"));
    directory.commit();
    CHECK(get_file(scratch / "out/a/b") == "x");
  }
  {
    OutputDirectory directory(scratch / "never");
    put_file(directory.inside() / "a", "x");
  }
  CHECK(entries_in(scratch.path()) == 1);
}

TEST_CASE("an output directory takes an empty directory's place and a trailing slash, and refuses anything else") {
  ScratchDirectory scratch;
  fs::create_directory(scratch / "empty");
  for (const char* name : {"empty", "slash/"}) {
    OutputDirectory directory(scratch / name);
    put_file(directory.inside() / "a", "x");
    directory.commit();
    CHECK(get_file(scratch / name / "a") == "x");
  }
  put_file(scratch / "file", "x");
  put_file(scratch / "empty file", "");
  for (const char* name : {"empty", "file", "empty file"}) {
    CAPTURE(name);
    CHECK(fault_of([&] { OutputDirectory(scratch / name); }) == Fault::local);
  }
}

TEST_CASE("files are read at any offset, and what is no file is refused") {
  ScratchDirectory scratch;
  put_file(scratch / "file", "0123456789");
  fs::create_symlink("file", scratch / "link");
  fs::create_directory(scratch / "directory");
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  for (const char* name : {"file", "link"}) {
    const File file = File::open(scratch / name);
    CHECK(file.size_bytes() == 10);
    std::vector<std::uint8_t> bytes(3);
    file.read_at(7, bytes);
    CHECK(testing::text_of(bytes) == "789");
    CHECK(fault_of([&] { file.read_at(8, bytes); }) == Fault::local);
    CHECK(stamp_of(scratch / name) == file.stamp());
  }
  for (const char* name : {"directory", "fifo"}) {
    CHECK(fault_of([&] { File::open(scratch / name); }) == Fault::local);
    CHECK(fault_of([&] { stamp_of(scratch / name); }) == Fault::local);
  }
  CHECK(fault_of([&] { File::open(scratch / "absent"); }) == Fault::not_found);
  CHECK(stamp_of(scratch / "absent") == std::nullopt);
  CHECK(stamp_of(scratch / "file/below") == std::nullopt);
}

TEST_CASE("stamps settle soon where times have parts of seconds, and in two seconds where they may be of FAT") {
  constexpr std::int64_t k_second_ns = 1'000'000'000;
  const auto settled = [](std::int64_t mtime_ns, std::int64_t ctime_ns) {
    FileStamp stamp;
    stamp.mtime_ns = mtime_ns;
    stamp.ctime_ns = ctime_ns;
    return settled_ns(stamp);
  };
  CHECK(settled(8 * k_second_ns, 8 * k_second_ns) == 10 * k_second_ns);
  CHECK(settled(8 * k_second_ns, 9 * k_second_ns + 1) == 11 * k_second_ns + 1);
  CHECK(settled(9 * k_second_ns + 1, 8 * k_second_ns) == 11 * k_second_ns + 1);
  CHECK(settled(8 * k_second_ns + 1, 9 * k_second_ns + 1) == 9 * k_second_ns + 20'000'001);
  CHECK(settled(9 * k_second_ns + 1, 8 * k_second_ns + 1) == 9 * k_second_ns + 20'000'001);
}

TEST_CASE("the times of a file are set to now by its file system, whose clock that tells") {
  const ScratchDirectory scratch;
  const fs::path path = scratch / "file";
  put_file(path, "content");
  fs::create_symlink("file", scratch / "link");
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  const std::int64_t before_ns = stamp_of(path)->mtime_ns;
  const std::int64_t link_ns = set_times_to_now(scratch / "link").value();
  CHECK(stamp_of(path)->mtime_ns == before_ns);  // it is the link's times
  const std::int64_t now_ns = set_times_to_now(path).value();
  CHECK(now_ns >= link_ns);
  CHECK(now_ns > before_ns);
  CHECK(stamp_of(path)->mtime_ns == now_ns);
  CHECK(set_times_to_now(scratch / "none") == std::nullopt);
}

TEST_CASE("a time that nanoseconds are not enough for is later, or earlier, than any other") {
  const ScratchDirectory scratch;
  put_file(scratch / "file", "content");
  const auto stamp_at = [&](std::int64_t seconds) {
    const timespec times[2] = {{0, UTIME_OMIT}, {seconds, 1}};
    REQUIRE(::utimensat(AT_FDCWD, (scratch / "file").c_str(), times, 0) == 0);
    return stamp_of(scratch / "file").value();
  };
  const FileStamp now = stamp_at(std::time(nullptr));
  const FileStamp late = stamp_at(15'000'000'000);  // the year 2445, which ext4 has room for
  CHECK(late.mtime_ns > now.mtime_ns);
  CHECK(settled_ns(late) > settled_ns(now));
  CHECK(stamp_at(-2'000'000'000).mtime_ns < 0);
}

TEST_CASE("a file that grows, shrinks or is touched while it is open is noticed") {
  ScratchDirectory scratch;
  const fs::path path = scratch / "file";
  put_file(path, "0123456789");
  const File file = File::open(path);
  CHECK(fault_of([&] { file.check_unchanged(); }) == std::nullopt);
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(1));
  CHECK(fault_of([&] { file.check_unchanged(); }) == Fault::local);
  for (const std::uintmax_t size : {5, 20}) {
    const File again = File::open(path);
    fs::resize_file(path, size);
    CHECK(fault_of([&] { again.check_unchanged(); }) == Fault::local);
  }
}

TEST_CASE("a small file is read up to the limit") {
  ScratchDirectory scratch;
  put_file(scratch / "file", "0123456789");
  CHECK(read_small_file(scratch / "file", 10) == "0123456789");
  CHECK(fault_of([&] { read_small_file(scratch / "file", 9); }) == Fault::corrupt);
  CHECK(fault_of([&] { read_small_file(scratch / "absent", 9); }) == Fault::not_found);
  CHECK(fault_of([&] { make_directories(scratch / "file/below"); }) == Fault::local);
}

}  // namespace wdelta
