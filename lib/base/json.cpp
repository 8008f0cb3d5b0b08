// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"

#include <fmt/format.h>
#include <unordered_set>
#include <vector>

namespace wdelta {

ParsedJson parse_json(std::string_view text, const std::string& object) {
  constexpr int k_deepest = 16;
  std::vector<std::unordered_set<std::string>> names;
  const ParsedJson::parser_callback_t watch = [&](int depth, ParsedJson::parse_event_t event, ParsedJson& parsed) {
    const bool begins =
        event == ParsedJson::parse_event_t::object_start || event == ParsedJson::parse_event_t::array_start;
    if (begins && depth >= k_deepest)
      throw Error(Fault::corrupt, object, fmt::format("JSON is nested deeper than {}", k_deepest));
    if (event == ParsedJson::parse_event_t::object_start) names.emplace_back();
    if (event == ParsedJson::parse_event_t::object_end) names.pop_back();
    if (event == ParsedJson::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second) {
      throw Error(Fault::corrupt, object, fmt::format("JSON has the name {:?} twice", parsed.get<std::string>()));
    }
    return true;
  };
  // The parser takes a NUL for the end of the text, so that anything could hide behind it.
  if (text.find('\0') != std::string_view::npos) throw Error(Fault::corrupt, object, "JSON holds a NUL byte");
  try {
    return ParsedJson::parse(text, watch);
  } catch (const nlohmann::json::exception& exception) {
    throw Error(Fault::corrupt, object, fmt::format("not valid JSON: {}", exception.what()));
  }
}

namespace {
[[noreturn]] void refuse(const std::string& object, const char* name, const char* expected) {
  throw Error(Fault::corrupt, object, fmt::format("member \"{}\" is not {}", name, expected));
}
}  // namespace

const ParsedJson& member(const ParsedJson& json, const char* name, const std::string& object) {
  if (!json.is_object()) throw Error(Fault::corrupt, object, "a JSON object was expected");
  const auto found = json.find(name);
  if (found == json.end()) throw Error(Fault::corrupt, object, fmt::format("member \"{}\" is missing", name));
  return *found;
}

std::string string_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_string()) refuse(object, name, "a string");
  return value.get<std::string>();
}

std::uint64_t size_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_number_unsigned()) refuse(object, name, "a number of bytes");
  return value.get<std::uint64_t>();
}

bool bool_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_boolean()) refuse(object, name, "true or false");
  return value.get<bool>();
}

Digest digest_member(const ParsedJson& json, const char* name, const std::string& object) {
  const auto digest = Digest::parse(string_member(json, name, object));
  if (!digest) refuse(object, name, "a digest of 64 hex digits");
  return *digest;
}

const ParsedJson& array_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_array()) refuse(object, name, "an array");
  return value;
}

namespace {
constexpr std::string_view k_seal_begin = "\"digest\":\"";
constexpr std::string_view k_seal_end = "\"}\n";
constexpr std::size_t k_seal_bytes = k_seal_begin.size() + 64 + k_seal_end.size();

Digest seal_of(std::string text) {
  text.replace(text.size() - k_seal_end.size() - 64, 64, 64, '0');
  return blake3(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}
}  // namespace

std::string seal(Json json) {
  json["digest"] = std::string(64, '0');
  std::string text = json.dump() + "\n";
  text.replace(text.size() - k_seal_end.size() - 64, 64, seal_of(text).hex());
  return text;
}

ParsedJson open_sealed(std::string_view text, std::string_view format, const std::string& object) {
  const std::string_view tail =
      text.size() < k_seal_bytes ? std::string_view() : text.substr(text.size() - k_seal_bytes);
  if (!tail.starts_with(k_seal_begin) || !tail.ends_with(k_seal_end) ||
      Digest::parse(tail.substr(k_seal_begin.size(), 64)) != seal_of(std::string(text))) {
    throw Error(Fault::corrupt, object, "its digest does not match its content: it was cut or changed");
  }
  ParsedJson json = parse_json(text, object);
  require_format(json, format, object);
  return json;
}

void require_format(const ParsedJson& json, std::string_view format, const std::string& object) {
  const std::string found = string_member(json, "format", object);
  if (found != format) throw Error(Fault::corrupt, object, fmt::format("format is {:?}, {:?} expected", found, format));
  const std::uint64_t version = size_member(json, "version", object);
  if (version != 1) {
    throw Error(Fault::unsupported, object,
                fmt::format("{} version {} is newer than this wdelta knows (1)", format, version),
                "use a newer wdelta");
  }
}

}  // namespace wdelta
