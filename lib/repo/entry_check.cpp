// SPDX-License-Identifier: Apache-2.0
#include "repo/entry_check.hpp"

#include "base/error.hpp"
#include "repo/ref_entry.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

std::optional<Digest> EntryCheck::check(const std::string& key, const Read& read) {
  const std::size_t slash = key.rfind('/');
  const std::string folder = key.substr(0, slash);
  const std::string last_part = key.substr(slash + 1);
  return refs_->are_contested() ? check_contested(folder, last_part, key, read)
                                : check_numbered(folder, last_part, key, read);
}

std::optional<Digest> EntryCheck::check_numbered(const std::string& folder, const std::string& last_part,
                                                 const std::string& key, const Read& read) {
  if (!is_entry_number(last_part)) throw Error(Fault::corrupt, key, "has no name of an entry");
  const std::uint64_t number = parse_entry_number(last_part);
  std::uint64_t& last = last_number_[folder];
  const std::uint64_t expected = last + 1;
  last = std::max(last, number);
  if (number != expected) throw Error(Fault::corrupt, key, fmt::format("entry {} is missing before it", expected));
  return read().commit;
}

std::optional<Digest> EntryCheck::check_contested(const std::string& folder, const std::string& last_part,
                                                  const std::string& key, const Read& read) {
  const auto parsed = parse_contested_key(last_part);
  if (!parsed) throw Error(Fault::corrupt, key, "has no name of an entry");
  const bool is_first = parsed->before == no_entry_before();
  const auto before = seen_.find(parsed->before);
  const bool is_behind = before != seen_.end() && before->second == std::pair(parsed->number - 1, folder);
  if (!parsed->is_withdrawal) seen_[parsed->write] = {parsed->number, folder};  // damaged or not
  const RefEntry entry = read();
  if (entry.write != parsed->write || entry.before != parsed->before)
    throw Error(Fault::corrupt, key, "its content is of another entry");
  if (parsed->is_withdrawal) return entry.commit;
  if (is_first ? parsed->number != 1 : !is_behind)
    throw Error(Fault::corrupt, key, fmt::format("the entry that it builds on ({}) is missing", parsed->before));
  return entry.commit;
}

}  // namespace wdelta
