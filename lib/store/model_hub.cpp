// SPDX-License-Identifier: Apache-2.0
#include "store/model_hub.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#ifdef WDELTA_HAS_NETWORK
#include "store/hub/hub_models.hpp"
#endif

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

const char* why_not_a_hub_name(std::string_view name) {
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

bool is_model_etag(std::string_view text) { return is_hex(text, 40) || is_hex(text, 64); }

ModelRevision ModelRevision::parse(const std::string& location) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Fault::usage, location, what, "write hf://NAMESPACE/MODEL or hf://NAMESPACE/MODEL@REVISION");
  };
  constexpr std::string_view k_scheme = "hf://";
  constexpr std::string_view k_models = "models/";
  constexpr std::size_t k_longest_revision = 200;
  std::string_view rest = location;
  if (!rest.starts_with(k_scheme)) refuse("is no model of the Hub");
  rest.remove_prefix(k_scheme.size());
  if (rest.starts_with(k_models)) rest.remove_prefix(k_models.size());
  ModelRevision found;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    found.revision = std::string(rest.substr(at + 1));
    rest = rest.substr(0, at);
    // It becomes a part of a URL, and of messages.
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
    if (found.revision.empty() || found.revision.size() > k_longest_revision ||
        !std::ranges::all_of(found.revision, is_plain)) {
      refuse("has no name of a revision behind its '@'");
    }
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos || rest.find('/', slash + 1) != std::string_view::npos)
    refuse("names no model of the Hub");
  for (const std::string_view name : {rest.substr(0, slash), rest.substr(slash + 1)}) {
    if (const char* reason = why_not_a_hub_name(name)) refuse(fmt::format("its name {:?} {}", name, reason));
  }
  found.model = std::string(rest);
  return found;
}

#ifdef WDELTA_HAS_NETWORK
std::unique_ptr<const ModelHub> open_model_hub(const Access& access, const Execution& execution) {
  return std::make_unique<HubModels>(access, execution);
}
#else
std::unique_ptr<const ModelHub> open_model_hub(const Access&, const Execution&) {
  throw Error(Fault::unsupported, "the Hub", "this build of wdelta reaches no network",
              "it was linked statically; the package for your system, or a build of your own, does");
}
#endif

}  // namespace wdelta
