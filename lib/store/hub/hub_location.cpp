// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_location.hpp"

#include "base/error.hpp"
#include "base/path.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr std::size_t k_longest_bucket_id = 96;
constexpr const char* k_form = "write hf://buckets/NAMESPACE/NAME or hf://buckets/NAMESPACE/NAME/PREFIX";

const char* why_not_a_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  const auto at_an_end = [&](char c) { return name.front() == c || name.back() == c; };
  if (name.empty()) return "is empty";
  if (!std::ranges::all_of(name, allowed)) return "has a character that is none of A-Z a-z 0-9 . _ -";
  if (at_an_end('-') || at_an_end('.')) return "begins or ends with '-' or '.'";
  if (name.find("--") != std::string_view::npos || name.find("..") != std::string_view::npos)
    return "has \"--\" or \"..\"";
  if (name.ends_with(".git")) return "ends with .git";
  return nullptr;
}

}  // namespace

HubLocation HubLocation::parse(std::string_view path, const std::string& location) {
  const auto refuse = [&](const std::string& what) { throw Error(Fault::usage, location, what, k_form); };
  constexpr std::string_view k_buckets = "buckets/";
  if (!path.starts_with(k_buckets)) refuse("names no bucket of the Hub");
  path.remove_prefix(k_buckets.size());
  if (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) refuse("names no bucket of the Hub");
  const std::size_t end = std::min(path.find('/', slash + 1), path.size());
  HubLocation found{std::string(path.substr(0, end)), ""};
  for (const std::string_view name : {path.substr(0, slash), path.substr(slash + 1, end - slash - 1)}) {
    if (const char* reason = why_not_a_name(name)) refuse(fmt::format("its name {:?} {}", name, reason));
  }
  if (found.bucket.size() > k_longest_bucket_id) {
    refuse(fmt::format("its bucket's name is longer than {} characters", k_longest_bucket_id));
  }
  if (end == path.size()) return found;
  const std::string_view prefix = path.substr(end + 1);
  if (const char* reason = why_not_a_place(prefix)) refuse(fmt::format("its prefix {:?} {}", prefix, reason));
  found.prefix = std::string(prefix) + "/";
  return found;
}

}  // namespace wdelta
