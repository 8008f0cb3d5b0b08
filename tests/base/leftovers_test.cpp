// SPDX-License-Identifier: Apache-2.0
#include "base/leftovers.hpp"

#include "base/file.hpp"
#include "base/output_directory.hpp"
#include "base/output_file.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;
using testing::ScratchDirectory;

namespace {

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

void touch(const fs::path& path) { Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)); }

}  // namespace

TEST_CASE("what killed programs left of a file or directory is removed, and nothing else") {
  ScratchDirectory scratch;
  touch(scratch / ".out.wdelta-012345");
  fs::create_directories(scratch / ".out.wdelta-abcdef/inside");
  touch(scratch / ".out.wdelta-abcdef/inside/file");
  const std::set<std::string> others = {".another.wdelta-012345", ".out.wdelta-0123456", ".out.wdelta-01234",
                                        "out.wdelta-012345",      "elsewhere",           "out"};
  for (const std::string& name : others) touch(scratch / name);
  remove_leftovers_of(scratch / "out");
  CHECK(names_in(scratch / ".") == others);
  fs::create_symlink("elsewhere", scratch / ".out.wdelta-012345");
  remove_leftovers_of(scratch / "out");
  CHECK(fs::exists(scratch / ".out.wdelta-012345"));
  remove_leftovers_of(scratch / "absent/out");
}

TEST_CASE("what somebody works at is no leftover") {
  ScratchDirectory scratch;
  {
    OutputFile file(scratch / "file");
    OutputDirectory directory(scratch / "directory");
    remove_leftovers_of(scratch / "file");
    remove_leftovers_of(scratch / "directory");
    const OutputDirectory again(scratch / "directory");
    CHECK(names_in(scratch / ".").size() == 3);
    file.commit(Overwrite::no, Durability::cached);
    directory.commit();
  }
  CHECK(names_in(scratch / ".") == std::set<std::string>{"file", "directory"});
}

TEST_CASE("what was taken for a leftover cannot be claimed any more") {
  ScratchDirectory scratch;
  const fs::path path = scratch / ".out.wdelta-012345";
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  {
    const Fd remover(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    CHECK(claim_temporary(remover.get()));
    CHECK_FALSE(claim_temporary(fd.get()));
  }
  CHECK(claim_temporary(fd.get()));
  fs::remove(path);
  CHECK_FALSE(claim_temporary(fd.get()));
}

}  // namespace wdelta
