// SPDX-License-Identifier: Apache-2.0
#include "repo/refs.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/moment.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr const char* k_entry_format = "wdelta-entry";
constexpr std::size_t k_number_digits = 16;
constexpr std::uint64_t k_longest_entry = 1 << 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_number(std::string_view part) { return part.size() == k_number_digits && std::ranges::all_of(part, is_digit); }

std::string folder(RefKind kind) { return kind == RefKind::branch ? "branches/" : "tags/"; }

std::string entry_key(RefKind kind, const std::string& name, std::uint64_t number) {
  return fmt::format("{}{}/{:016}", folder(kind), name, number);
}

struct Entry {
  Digest commit;
  std::string write;
};

Entry read_entry(const Store& store, const std::string& key) {
  const auto text = get_text(store, key, k_longest_entry);
  if (!text) throw Error(Fault::corrupt, key, "vanished: entries are never removed");
  const ParsedJson json = open_sealed(*text, k_entry_format, key);
  return {digest_member(json, "commit", key), string_member(json, "write", key)};
}

}  // namespace

const char* why_not_a_ref_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > 200) return "is longer than 200 characters";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || !is_word(part.front())) return "has a part that does not begin with a letter, a digit or '_'";
    if (!std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; })) {
      return "has a character other than letters, digits, '_', '-', '.' and '/'";
    }
    if (is_number(part)) return "has a part of 16 digits";
    begin = end + 1;
  }
  return nullptr;
}

namespace {

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Where the series of entries with these numbers stands. Entries are counted without gaps and never removed: where one
// is missing, newer ones may be missing too.
RefState state_of(const Store& store, RefKind kind, const std::string& name, std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  RefState ref;
  for (const std::uint64_t number : numbers) {
    if (number == 0) continue;  // they are counted from one
    while (++ref.number < number) {
      // A listing that was made while others wrote may lack what is there.
      const std::string key = entry_key(kind, name, ref.number);
      if (store.get(key) == nullptr) {
        throw Error(Fault::corrupt, key, fmt::format("is missing, though entry {} is there", number));
      }
    }
  }
  if (ref.number > 0) ref.commit = read_entry(store, entry_key(kind, name, ref.number)).commit;
  return ref;
}

}  // namespace

std::map<std::string, RefState> list_refs(const Store& store, RefKind kind) {
  std::map<std::string, std::vector<std::uint64_t>> numbers;
  for (const Store::Listed& listed : store.list(folder(kind))) {
    const std::size_t slash = listed.key.rfind('/');
    const std::string number = listed.key.substr(slash + 1);
    if (slash < folder(kind).size() || !is_number(number)) continue;
    numbers[listed.key.substr(folder(kind).size(), slash - folder(kind).size())].push_back(number_of(number));
  }
  std::map<std::string, RefState> refs;
  for (const auto& [name, those] : numbers) refs[name] = state_of(store, kind, name, those);
  return refs;
}

std::vector<Digest> all_ref_targets(const Store& store, RefKind kind) {
  std::vector<Digest> targets;
  for (const Store::Listed& listed : store.list(folder(kind))) targets.push_back(read_entry(store, listed.key).commit);
  return targets;
}

RefState read_ref(const Store& store, RefKind kind, const std::string& name) {
  std::vector<std::uint64_t> numbers;
  const std::string prefix = folder(kind) + name + "/";
  for (const Store::Listed& listed : store.list(prefix)) {
    const std::string_view number = std::string_view(listed.key).substr(prefix.size());
    if (is_number(number)) numbers.push_back(number_of(number));  // else of a branch whose name begins with this one's
  }
  return state_of(store, kind, name, numbers);
}

void move_ref(Store& store, RefKind kind, const std::string& name, const RefState& before, const Digest& commit) {
  if (const char* reason = why_not_a_ref_name(name)) throw Error(Fault::usage, name, reason);
  constexpr std::uint64_t k_last_number = 9'999'999'999'999'999;
  if (before.number >= k_last_number)
    throw Error(Fault::corrupt, name, "its newest entry has the last number there is");
  const std::string key = entry_key(kind, name, before.number + 1);
  const std::string write = random_hex(32);
  const std::string text = seal(
      {{"format", k_entry_format}, {"version", 1}, {"commit", commit.hex()}, {"write", write}, {"time", now_text()}});
  if (store.create(key, text)) return;
  // Ours after all, when a store repeated the request behind our back.
  if (read_entry(store, key).write == write) return;
  throw Error(Fault::conflict, name,
              fmt::format("{} was moved by someone else meanwhile", kind == RefKind::branch ? "branch" : "tag"),
              "nothing was lost; look at the log and push again");
}

void check_ref_entry(const Store& store, const std::string& key) { read_entry(store, key); }

}  // namespace wdelta
