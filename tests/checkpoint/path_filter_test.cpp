// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/path_filter.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace wdelta {

namespace {

PathFilter excluding(std::initializer_list<const char*> patterns) {
  PathFilter filter;
  for (const char* pattern : patterns) filter.exclude(pattern);
  return filter;
}

struct Row {
  const char* pattern;
  std::vector<const char*> matched;
  std::vector<const char*> unmatched;
};

}  // namespace

TEST_CASE("patterns match as those of gitignore do") {
  const Row rows[] = {
      {"*.pt", {"a.pt", "x/y/a.pt", "a.pt/inside"}, {"a.ptx", "apt"}},
      {"optim", {"optim", "x/optim/y"}, {"optimizer", "x/optimal"}},
      {"/a.pt", {"a.pt"}, {"x/a.pt"}},
      {"x/*.pt", {"x/a.pt"}, {"x/y/a.pt", "z/x/a.pt", "x/a"}},
      {"x/**/a.pt", {"x/a.pt", "x/y/a.pt", "x/y/z/a.pt"}, {"y/a.pt", "x/b.pt"}},
      {"**/z", {"z", "x/z", "x/y/z/inside"}, {"zz"}},
      {"x/**", {"x/a", "x/y/b"}, {"x", "y/x/a"}},
      {"logs/", {"logs/a", "x/logs/b"}, {"logs", "x/logs"}},
      {"global_step[0-9]*", {"global_step12/x", "global_step1"}, {"global_step", "global_steps/x"}},
      {"a?c", {"abc", "x/a-c"}, {"ac", "a/c", "abbc"}},
      {"with space.*", {"with space.txt"}, {"withspace.txt"}},
      {"\\#notes", {"#notes", "x/#notes"}, {"notes"}},
      {"\\!x", {"!x"}, {"x"}},
      {"a\\*b", {"a*b", "a*b/inside"}, {"ab", "acb"}},
      {"x/\\[y\\]/\\?", {"x/[y]/?"}, {"x/y/?", "x/[y]/z"}},
      {"a\\b", {"ab"}, {"b"}},
      {"a\\", {}, {"a", "a/b"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    const PathFilter out = excluding({row.pattern});
    PathFilter in;
    in.include(row.pattern);
    for (const std::string path : row.matched) {
      CAPTURE(path);
      CHECK_FALSE(out.takes(path));
      CHECK(in.takes(path));
    }
    for (const std::string path : row.unmatched) {
      CAPTURE(path);
      CHECK(out.takes(path));
      CHECK_FALSE(in.takes(path));
    }
  }
}

TEST_CASE("no pattern takes everything, an included one only what it matches, less what is excluded") {
  CHECK(PathFilter().takes("a/b"));
  PathFilter filter;
  filter.include("*.safetensors");
  filter.include("*.json");
  filter.exclude("trainer_state.json");
  CHECK(filter.takes("x/model.safetensors"));
  CHECK(filter.takes("config.json"));
  CHECK_FALSE(filter.takes("trainer_state.json"));
  CHECK_FALSE(filter.takes("optimizer.pt"));
}

TEST_CASE("of an ignore file's lines and excluded patterns the last that matches decides") {
  PathFilter filter;
  filter.exclude_lines("# states\r\n\n*.pt  \n!keep.pt\nlogs/\n");
  CHECK_FALSE(filter.takes("a.pt"));
  CHECK(filter.takes("keep.pt"));
  CHECK(filter.takes("x/keep.pt"));
  CHECK_FALSE(filter.takes("logs/a"));
  CHECK(filter.takes("# states"));
  filter.exclude("keep.pt");
  CHECK_FALSE(filter.takes("keep.pt"));
}

TEST_CASE("a byte order mark at the beginning of an ignore file is no part of its first pattern") {
  PathFilter filter;
  filter.exclude_lines("\xef\xbb\xbf*.pt\r\n\xef\xbb\xbf*.tmp\r\n");
  CHECK_FALSE(filter.takes("a.pt"));
  CHECK(filter.takes("a.tmp"));  // further on it is one, as in gitignore(5)
  PathFilter only_the_mark;
  only_the_mark.exclude_lines("\xef\xbb\xbf");
  CHECK(only_the_mark.takes("a"));
}

TEST_CASE("a backslash in an ignore file takes away what the character behind it means") {
  PathFilter filter;
  filter.exclude_lines("\\#notes\n\\!x\na\\*b\nspace\\ \nspaces\\   \r\n");
  for (const char* path : {"#notes", "!x", "a*b", "space ", "spaces "}) {
    CAPTURE(path);
    CHECK_FALSE(filter.takes(path));
  }
  for (const char* path : {"notes", "x", "acb", "space", "spaces", "spaces   "}) {
    CAPTURE(path);
    CHECK(filter.takes(path));
  }
}

TEST_CASE("a pattern with many stars is no way to keep a push busy") {
  std::string pattern, path;
  for (int i = 0; i < 200; ++i) {
    pattern += "**/";
    path += "a/";
  }
  CHECK(excluding({(pattern + "b").c_str()}).takes(path + "c"));
}

}  // namespace wdelta
