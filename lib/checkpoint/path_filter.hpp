// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// Which files of a checkpoint are taken: wdelta-push(1), "Patterns". They are those of gitignore(5): a pattern without
/// a slash matches a name at any depth, one with a slash the whole path; `*` stays within a name, `**` does not; one
/// that matches a directory matches all that is in it; a backslash takes away what the character behind it means.
class PathFilter {
 public:
  /// Once called, only what some included pattern matches is taken.
  void include(std::string_view pattern);
  /// Of all excluded and re-included patterns the last one that matches a file decides.
  void exclude(std::string_view pattern);
  /// The lines of an ignore file: patterns to exclude, or with `!` in front to take nevertheless; `#` begins a comment.
  /// A byte order mark before the first is no part of it.
  void exclude_lines(std::string_view text);

  bool takes(std::string_view path) const;

 private:
  struct Pattern {
    std::vector<std::string> parts;  // "**" stands for any number of names
    bool directories_only = false;
    bool negated = false;
  };
  static Pattern parse(std::string_view text);
  static bool matches(const Pattern& pattern, std::string_view path);

  std::vector<Pattern> included_;
  std::vector<Pattern> excluded_;
};

}  // namespace wdelta
