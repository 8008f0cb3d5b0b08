// SPDX-License-Identifier: Apache-2.0
#include "delta/description.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "delta/file_identity_json.hpp"

#include <charconv>
#include <fmt/format.h>
#include <set>

namespace wdelta {

std::optional<Source> DeltaDescription::source_of(const std::string& name) const {
  const auto found = sources.find(name);
  if (found != sources.end()) return found->second;
  if (base.empty()) return std::nullopt;
  return Source{0, name};
}

const std::string* find_metadata(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

Metadata to_metadata(const DeltaDescription& description) {
  Json base = Json::array();
  for (const FileIdentity& file : description.base) base.push_back(to_json(file));
  Metadata metadata = {{"base", base.dump()}, {"result", to_json(description.result).dump()}};
  if (!description.sources.empty()) {
    ParsedJson sources = ParsedJson::object();
    for (const auto& [tensor, source] : description.sources) {
      sources[tensor] = source ? ParsedJson::array({source->file, source->tensor}) : ParsedJson(nullptr);
    }
    metadata.emplace_back("sources", sources.dump());
  }
  if (description.opaque != nullptr) metadata.emplace_back("opaque", description.opaque->name);
  metadata.emplace_back("elements", std::to_string(description.element_count));
  metadata.emplace_back("changed", std::to_string(description.change_count));
  return metadata;
}

namespace {

const std::string& required(const Metadata& metadata, const char* key, const std::string& object) {
  const std::string* value = find_metadata(metadata, key);
  if (value == nullptr) throw Error(Fault::corrupt, object, fmt::format("__metadata__ has no {:?}", key));
  return *value;
}

std::uint64_t required_count(const Metadata& metadata, const char* key, const std::string& object) {
  const std::string& text = required(metadata, key, object);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool padded = text.size() > 1 && text.front() == '0';
  if (error != std::errc() || end != text.data() + text.size() || padded) {
    throw Error(Fault::corrupt, object, fmt::format("__metadata__ {:?} is no number", key));
  }
  return value;
}

}  // namespace

DeltaDescription description_from(const Metadata& metadata, const std::string& object) {
  DeltaDescription description;
  const ParsedJson base = parse_json(required(metadata, "base", object), object);
  if (!base.is_array()) throw Error(Fault::corrupt, object, "__metadata__ \"base\" is not an array");
  std::set<std::string> paths;
  for (const ParsedJson& file : base) {
    description.base.push_back(file_identity_from(file, object));
    const std::string& path = description.base.back().path;
    if (!paths.insert(path).second)
      throw Error(Fault::corrupt, object, fmt::format("__metadata__ \"base\" names {:?} twice", path));
  }
  description.result = file_identity_from(parse_json(required(metadata, "result", object), object), object);
  description.element_count = required_count(metadata, "elements", object);
  description.change_count = required_count(metadata, "changed", object);

  if (const std::string* text = find_metadata(metadata, "sources")) {
    parse_members(*text, object, [&](const std::string& tensor, ParsedJson&& value) {
      if (value.is_null()) {
        description.sources.emplace(tensor, std::nullopt);
      } else if (value.is_array() && value.size() == 2 && value[0].is_number_unsigned() && value[1].is_string() &&
                 value[0].get<std::uint64_t>() < description.base.size()) {
        description.sources.emplace(tensor, Source{value[0].get<std::size_t>(), value[1].get<std::string>()});
      } else {
        throw Error(Fault::corrupt, object, fmt::format("the source of tensor {:?} is none", tensor));
      }
    });
  }
  if (const std::string* dtype = find_metadata(metadata, "opaque")) {
    description.opaque = dtype_named(*dtype);
    if (description.opaque == nullptr)
      throw Error(Fault::corrupt, object, fmt::format("__metadata__ \"opaque\": {:?} is no dtype", *dtype));
    if (description.base.size() > 1 || find_metadata(metadata, "sources") != nullptr)
      throw Error(Fault::corrupt, object, "is of an opaque file, which has one base file at most and no sources");
  }
  return description;
}

}  // namespace wdelta
