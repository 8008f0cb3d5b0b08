// SPDX-License-Identifier: Apache-2.0
#include "repo/contested.hpp"

#include "base/ascii.hpp"
#include "repo/ref_entry.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace wdelta {

namespace {
constexpr std::string_view k_withdrawn = "-withdrawn";
}

std::string no_entry_before() { return std::string(k_write_digits, '0'); }

std::string contested_key(const std::string& folder, std::uint64_t number, const std::string& write,
                          const std::string& before) {
  return fmt::format("{}{:0{}}-{}-{}", folder, number, k_number_digits, write, before);
}

std::string withdrawal_key(const std::string& entry_key) { return fmt::format("{}{}", entry_key, k_withdrawn); }

std::optional<ContestedKey> parse_contested_key(std::string_view last_part) {
  ContestedKey key;
  key.is_withdrawal = last_part.ends_with(k_withdrawn);
  if (key.is_withdrawal) last_part.remove_suffix(k_withdrawn.size());
  constexpr std::size_t k_length = k_number_digits + 1 + k_write_digits + 1 + k_write_digits;
  if (last_part.size() != k_length) return std::nullopt;
  const std::string_view number = last_part.substr(0, k_number_digits);
  const std::string_view write = last_part.substr(k_number_digits + 1, k_write_digits);
  const std::string_view before = last_part.substr(k_number_digits + 1 + k_write_digits + 1);
  const bool is_key = is_entry_number(number) && last_part[k_number_digits] == '-' && is_hex(write, k_write_digits) &&
                      last_part[k_number_digits + 1 + k_write_digits] == '-' && is_hex(before, k_write_digits);
  if (!is_key || write == no_entry_before()) return std::nullopt;
  key.number = parse_entry_number(number);
  key.write = write;
  key.before = before;
  return key;
}

void ContestedEntries::add(const Store::Listed& listed) {
  const auto key = parse_contested_key(std::string_view(listed.key).substr(listed.key.rfind('/') + 1));
  if (!key) return;
  if (key->is_withdrawal) {
    withdrawn_.insert(key->write);
    return;
  }
  // A second entry of the same write id is none that wdelta wrote; the first in the order of the keys counts.
  const auto [entry, is_new] = entries_.try_emplace(
      key->write, ContestedEntry{listed.key, key->number, key->write, key->before, listed.written_ms});
  if (is_new) rivals_[{key->number, key->before}].push_back(&entry->second);
}

std::vector<ContestedEntry> ContestedEntries::line(std::optional<std::int64_t> now_ms) const {
  std::vector<ContestedEntry> line;
  const auto rank = [this](const ContestedEntry* entry) {
    return std::tuple(entry->written_ms / contest_.tick.count(), entry->write);
  };
  for (std::string before = no_entry_before();; before = line.back().write) {
    const auto rivals = rivals_.find({line.size() + 1, before});
    if (rivals == rivals_.end()) return line;
    const ContestedEntry& first = **std::ranges::min_element(rivals->second, {}, rank);
    if (now_ms && settled_ms(first) > *now_ms) return line;
    line.push_back(first);
  }
}

bool ContestedEntries::is_rooted(const std::string& write) const {
  for (auto entry = entries_.find(write); entry != entries_.end(); entry = entries_.find(entry->second.before)) {
    if (entry->second.before == no_entry_before()) return entry->second.number == 1;
    const auto before = entries_.find(entry->second.before);
    if (before == entries_.end() || before->second.number + 1 != entry->second.number) return false;
  }
  return false;
}

bool ContestedEntries::has_orphans() const {
  return std::ranges::any_of(entries_, [this](const auto& entry) {
    return entry.second.before != no_entry_before() && !entries_.contains(entry.second.before);
  });
}

std::vector<ContestedEntry> ContestedEntries::forks(std::optional<std::int64_t> now_ms) const {
  std::set<std::string> counted;
  for (const ContestedEntry& entry : line()) counted.insert(entry.write);
  const auto is_left = [&](const ContestedEntry& entry) {
    // Its writer lists a settle time and two ticks behind its upload, and then needs a moment to withdraw it.
    const bool is_fresh = now_ms && settled_ms(entry) + (contest_.settle + 2 * contest_.tick).count() > *now_ms;
    return !counted.contains(entry.write) && !withdrawn_.contains(entry.write) && !is_fresh;
  };
  std::set<std::string> built_upon;
  for (const auto& [write, entry] : entries_) {
    if (is_left(entry)) built_upon.insert(entry.before);
  }
  std::vector<ContestedEntry> forks;
  for (const auto& [write, entry] : entries_) {
    if (is_left(entry) && !built_upon.contains(write)) forks.push_back(entry);
  }
  std::ranges::sort(forks, {}, [](const ContestedEntry& entry) { return std::tuple(entry.number, entry.write); });
  return forks;
}

}  // namespace wdelta
