// SPDX-License-Identifier: Apache-2.0
#include "repo/ref_entry.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/moment.hpp"

#include <algorithm>
#include <charconv>

namespace wdelta {

namespace {
constexpr const char* k_entry_format = "wdelta-entry";
constexpr std::uint64_t k_longest_entry = 1 << 16;
constexpr std::uint64_t k_version = 1;
constexpr std::uint64_t k_version_of_deletions = 2;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

std::string to_text(const RefEntry& entry) {
  Json json = {{"format", k_entry_format},
               {"version", entry.commit ? k_version : k_version_of_deletions},
               {"commit", entry.commit ? Json(entry.commit->hex()) : Json(nullptr)},
               {"write", entry.write}};
  if (!entry.before.empty()) json["before"] = entry.before;
  json["time"] = now_text();
  return seal(std::move(json));
}

RefEntry read_ref_entry(const Store& store, const std::string& key) {
  const auto text = get_text(store, key, k_longest_entry);
  if (!text) throw Error(Fault::corrupt, key, "vanished: entries are never removed");
  const ParsedJson json = open_sealed(*text, k_entry_format, key, k_version_of_deletions);
  const bool may_be_deletion = size_member(json, "version", key) >= k_version_of_deletions;
  std::optional<Digest> commit;
  if (!may_be_deletion || !member(json, "commit", key).is_null()) commit = digest_member(json, "commit", key);
  return {commit, string_member(json, "write", key),
          json.contains("before") ? string_member(json, "before", key) : std::string()};
}

bool is_entry_number(std::string_view text) {
  return text.size() == k_number_digits && std::ranges::all_of(text, is_digit);
}

std::uint64_t parse_entry_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace wdelta
