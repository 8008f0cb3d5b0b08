// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/path_filter.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <span>

namespace wdelta {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// A space behind a backslash belongs to the pattern.
std::string_view without_blanks_behind(std::string_view line) {
  while (!line.empty() && std::string_view(" \t\r").find(line.back()) != std::string_view::npos &&
         !line.ends_with("\\ "))
    line.remove_suffix(1);
  return line;
}

// Whether `pattern` matches the first n names, for each n: then also what lies in the directory that they name.
// A table, row by row: a pattern with many `**` must not take exponential time.
std::vector<bool> matched_beginnings(std::span<const std::string> pattern, std::span<const std::string> names) {
  std::vector<bool> reached(names.size() + 1, false);
  reached[0] = true;
  for (const std::string& part : pattern) {
    const bool at_end = &part == &pattern.back();
    std::vector<bool> next(names.size() + 1, false);
    for (std::size_t n = 0; n <= names.size(); ++n) {
      if (part == "**") {
        next[n] = (n > 0 && (reached[n - 1] || next[n - 1])) || (reached[n] && !at_end);
      } else if (n > 0) {
        next[n] = reached[n - 1] && fnmatch(part.c_str(), names[n - 1].c_str(), 0) == 0;
      }
    }
    reached = std::move(next);
  }
  return reached;
}

}  // namespace

PathFilter::Pattern PathFilter::parse(std::string_view text) {
  Pattern pattern;
  if (text.ends_with('/')) {
    pattern.directories_only = true;
    text.remove_suffix(1);
  }
  const bool anchored = text.find('/') != std::string_view::npos;
  if (text.starts_with('/')) text.remove_prefix(1);
  pattern.parts = split(text, '/');
  if (!anchored) pattern.parts.insert(pattern.parts.begin(), "**");
  return pattern;
}

bool PathFilter::matches(const Pattern& pattern, std::string_view path) {
  const std::vector<std::string> names = split(path, '/');
  const std::vector<bool> matched = matched_beginnings(pattern.parts, names);
  const auto last = pattern.directories_only ? matched.end() - 1 : matched.end();
  return std::find(matched.begin() + 1, last, true) != last;
}

void PathFilter::include(std::string_view pattern) { included_.push_back(parse(pattern)); }

void PathFilter::exclude(std::string_view pattern) { excluded_.push_back(parse(pattern)); }

void PathFilter::exclude_lines(std::string_view text) {
  constexpr std::string_view k_byte_order_mark = "\xef\xbb\xbf";  // some editors begin a file of UTF-8 so
  if (text.starts_with(k_byte_order_mark)) text.remove_prefix(k_byte_order_mark.size());
  for (std::string_view line : split(text, '\n')) {
    line = without_blanks_behind(line);
    if (line.empty() || line.starts_with('#')) continue;
    const bool negated = line.starts_with('!');
    if (negated) line.remove_prefix(1);
    excluded_.push_back(parse(line));
    excluded_.back().negated = negated;
  }
}

bool PathFilter::takes(std::string_view path) const {
  const auto matches_path = [&](const Pattern& pattern) { return matches(pattern, path); };
  if (!included_.empty() && std::ranges::none_of(included_, matches_path)) return false;
  const auto deciding = std::find_if(excluded_.rbegin(), excluded_.rend(), matches_path);
  return deciding == excluded_.rend() || deciding->negated;
}

}  // namespace wdelta
