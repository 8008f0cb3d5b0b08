// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_location.hpp"

#include "base/error.hpp"
#include "base/path.hpp"
#include "store/model_hub.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr std::size_t k_longest_bucket_id = 96;
constexpr const char* k_form = "write hf://buckets/NAMESPACE/NAME or hf://buckets/NAMESPACE/NAME/PREFIX";

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
    if (const char* reason = why_not_a_hub_name(name)) refuse(fmt::format("its name {:?} {}", name, reason));
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
