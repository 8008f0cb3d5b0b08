// SPDX-License-Identifier: Apache-2.0
#include "delta/delta_list.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/path.hpp"
#include "delta/file_identity_json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace wdelta {

namespace {
constexpr const char* k_list_format = "wdelta-delta-directory";
constexpr const char* k_as_names[] = {"same", "delta", "file"};
}  // namespace

std::string to_text(const DeltaList& list) {
  Json files = Json::array();
  for (const ListedFile& file : list.files) {
    Json json = to_json(file.identity);
    json["executable"] = file.executable;
    json["as"] = k_as_names[static_cast<int>(file.as)];
    files.push_back(std::move(json));
  }
  return seal({{"format", k_list_format}, {"version", 1}, {"files", files}, {"removed", list.removed}});
}

bool claims_to_be_delta_list(std::string_view text) {
  return text.find(fmt::format("\"{}\"", k_list_format)) != std::string_view::npos;
}

DeltaList delta_list_from(std::string_view text, const std::string& object) {
  const ParsedJson json = open_sealed(text, k_list_format, object);
  DeltaList list;
  std::set<std::string> places;
  for (const ParsedJson& value : array_member(json, "files", object)) {
    ListedFile file;
    file.identity = file_identity_from(value, object);
    file.executable = bool_member(value, "executable", object);
    const std::string as = string_member(value, "as", object);
    const auto* found = std::ranges::find(k_as_names, as);
    if (found == std::end(k_as_names))
      throw Error(Fault::corrupt, object, fmt::format("file kept as {:?} is not known", as));
    file.as = static_cast<ListedAs>(found - k_as_names);
    if (!places.insert(file.identity.path).second) {
      throw Error(Fault::corrupt, object, fmt::format("names {:?} twice", file.identity.path));
    }
    list.files.push_back(std::move(file));
  }
  std::vector<std::string_view> paths;
  for (const ListedFile& file : list.files) paths.push_back(file.identity.path);
  if (const auto collision = find_collision(std::move(paths))) {
    throw Error(Fault::corrupt, object,
                fmt::format("paths {:?} and {:?} collide", collision->first, collision->second));
  }
  for (const ParsedJson& value : array_member(json, "removed", object)) {
    if (!value.is_string()) throw Error(Fault::corrupt, object, "\"removed\" holds something that is no path");
    require_place(value.get<std::string>(), object);
    list.removed.push_back(value.get<std::string>());
    if (!places.insert(list.removed.back()).second) {
      throw Error(Fault::corrupt, object, fmt::format("names {:?} twice", list.removed.back()));
    }
  }
  return list;
}

}  // namespace wdelta
