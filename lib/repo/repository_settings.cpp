// SPDX-License-Identifier: Apache-2.0
#include "repo/repository_settings.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/moment.hpp"
#include "repo/ref_entry.hpp"

#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr const char* k_settings_format = "wdelta-repository";
constexpr unsigned k_id_digits = 32;
constexpr const char* k_exclusive = "exclusive";
constexpr const char* k_contested = "contested";

// Bounds for what a hostile document could have a reader wait for, or divide by.
std::chrono::milliseconds milliseconds_member(const ParsedJson& json, const char* name, const std::string& object) {
  constexpr std::uint64_t k_longest_ms = 600'000;
  const std::uint64_t value = size_member(json, name, object);
  if (value < 1 || value > k_longest_ms)
    throw Error(Fault::corrupt, object, fmt::format("{} is {}, expected 1 to {}", name, value, k_longest_ms));
  return std::chrono::milliseconds(value);
}

// How branches are moved: by numbered entries, unless it says how they are contested.
std::optional<Contest> contest_from(const ParsedJson& json, const std::string& object) {
  if (!json.contains("branches")) return std::nullopt;
  const std::string branches = string_member(json, "branches", object);
  if (branches == k_exclusive) return std::nullopt;
  if (branches == k_contested)
    return Contest{milliseconds_member(json, "settle_ms", object), milliseconds_member(json, "tick_ms", object)};
  throw Error(Fault::unsupported, object,
              fmt::format("branches are moved in a way ({:?}) that this wdelta does not know", branches),
              "use a newer wdelta");
}

}  // namespace

RepositorySettings new_settings(const std::optional<Contest>& contest) { return {random_hex(k_id_digits), contest}; }

std::string to_text(const RepositorySettings& settings) {
  Json json = {{"format", k_settings_format}, {"version", 1}, {"id", settings.id}};
  json["branches"] = settings.contest ? k_contested : k_exclusive;
  if (settings.contest) {
    json["settle_ms"] = settings.contest->settle.count();
    json["tick_ms"] = settings.contest->tick.count();
  }
  return seal(std::move(json));
}

RepositorySettings settings_from(std::string_view text, const std::string& object) {
  const ParsedJson json = open_sealed(text, k_settings_format, object);
  const std::optional<Contest> contest = contest_from(json, object);
  // It becomes the name of a directory, where push keeps its state.
  std::string id = string_member(json, "id", object);
  if (!is_hex(id, k_id_digits))
    throw Error(Fault::corrupt, object, fmt::format("its id is not {} hexadecimal digits", k_id_digits));
  return {std::move(id), contest};
}

std::optional<RepositorySettings> read_settings(const Store& store) {
  const auto text = get_text(store, k_settings_key, k_longest_settings);
  if (!text) return std::nullopt;
  return settings_from(*text, store.name() + "/" + k_settings_key);
}

}  // namespace wdelta
