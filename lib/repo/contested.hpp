// SPDX-License-Identifier: Apache-2.0
// Which entries of a branch count where several writers may each add one of the same number: wdelta-repository(5),
// "Contested entries".
//
// Why it holds. An entry is decided by those of its own number that build on the same entry and were uploaded no later,
// by the store's clock, and by what decides the entry that it builds on, which is older. Whoever lists one settle time
// and one tick after its own upload sees all of these, as long as no listing hides anything for longer than the settle
// time, and so decides as everybody will for ever after: what is uploaded later loses. That goes for a writer that has
// built upon an entry that was not decided yet, too. Only times that the store gave are ever compared, and waiting is
// by a steady clock, so the clocks of machines do not matter.
//
// Where a listing hid an entry for longer, two writers may both have been told that they won, and the rule takes the
// entry of one of them out of the branch. Nothing is deleted, and a writer that knows that it lost withdraws its entry:
// whatever neither counts nor was withdrawn is a fork that somebody believes to be history, and is shown.
#pragma once

#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wdelta {

/// An entry as its key and a listing tell of it.
struct ContestedEntry {
  std::string key;
  std::uint64_t number = 0;
  std::string write;   ///< by which it is known
  std::string before;  ///< the write id of the entry that it builds on
  std::int64_t written_ms = 0;
};

/// What the first entry of a branch builds on.
std::string no_entry_before();
/// The key of an entry; `folder` is "branches/NAME/".
std::string contested_key(const std::string& folder, std::uint64_t number, const std::string& write,
                          const std::string& before);
/// The key under which the writer of an entry says that it knows that it lost.
std::string withdrawal_key(const std::string& entry_key);

/// What the last part of a key says, when it is one of an entry or of a withdrawal.
struct ContestedKey {
  std::uint64_t number = 0;
  std::string write;
  std::string before;
  bool is_withdrawal = false;
};
std::optional<ContestedKey> parse_contested_key(std::string_view last_part);

/// The entries of one branch or tag, as one listing shows them.
class ContestedEntries {
 public:
  explicit ContestedEntries(const Contest& contest) : contest_(contest) {}
  ContestedEntries(ContestedEntries&&) = default;
  ContestedEntries& operator=(ContestedEntries&&) = default;

  /// Takes a key of the listing; what is no entry's is passed over.
  void add(const Store::Listed& listed);

  /// The entries that count, oldest first. With `now_ms`, only those that were decided by then.
  std::vector<ContestedEntry> line(std::optional<std::int64_t> now_ms = {}) const;
  /// Whether an entry is there, and all that it builds on.
  bool is_rooted(const std::string& write) const;
  /// Whether something builds on an entry that is not there.
  bool has_orphans() const;
  /// The newest entries that neither count nor were withdrawn. With `now_ms`, without those whose writers may still be
  /// about to find out.
  std::vector<ContestedEntry> forks(std::optional<std::int64_t> now_ms) const;

 private:
  std::int64_t settled_ms(const ContestedEntry& entry) const {
    return entry.written_ms + (contest_.settle + contest_.tick).count();
  }

  Contest contest_;
  std::map<std::string, ContestedEntry> entries_;  // by write id
  std::map<std::pair<std::uint64_t, std::string>, std::vector<const ContestedEntry*>> rivals_;
  std::set<std::string> withdrawn_;  // write ids
};

}  // namespace wdelta
