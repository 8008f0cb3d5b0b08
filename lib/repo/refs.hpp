// SPDX-License-Identifier: Apache-2.0
// Branches and tags: wdelta-repository(5), "Branches and tags".
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "repo/contested.hpp"
#include "store/store.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

enum class RefKind { branch, tag };

/// Where a branch or tag stands.
struct RefState {
  std::uint64_t number = 0;      ///< of its newest entry; 0 when it has none
  std::optional<Digest> commit;  ///< nothing when it has no entry, or was deleted
  std::string write;             ///< of its newest entry, where entries are contested
};

/// A commit that somebody may have been told is the newest of a branch or tag, and that is not: the store did not show
/// its entry to others in time, or its writer was killed before it knew.
struct Fork {
  std::string name;
  Digest commit;
};

/// A commit that an entry of a branch or tag names.
struct NamedCommit {
  Digest commit;
  /// By the store's clock, when a newer entry, maybe a deletion, took its place or its writer withdrew it, if that was
  /// done.
  std::optional<std::int64_t> until_ms;
};

/// Why `name` may not be the name of a branch or tag, or null when it may.
const char* why_not_a_ref_name(std::string_view name);

/// Waits by a steady clock, at most until a stop is asked for.
void wait_steadily(std::chrono::milliseconds time, const std::stop_token& stop);

/// The branches and tags of a repository. With a contest, entries are contested; else they are numbered.
class Refs {
 public:
  using Wait = std::function<void(std::chrono::milliseconds, const std::stop_token&)>;
  Refs(Store& store, const std::optional<Contest>& contest, Wait wait = wait_steadily)
      : store_(&store), contest_(contest), wait_(std::move(wait)) {}

  /// Where it stands, as far as that is decided. Throws corrupt when its newest entry is damaged.
  RefState read(RefKind kind, const std::string& name) const;
  /// The same for whoever is about to move it: what is not decided yet counts too.
  RefState read_to_move(RefKind kind, const std::string& name, const Execution& execution) const;
  /// All branches or tags there are, by name.
  std::map<std::string, RefState> list(RefKind kind) const;
  /// Every commit that an entry of any branch or tag names: old ones and those of forks included.
  std::vector<NamedCommit> ever_named(RefKind kind) const;
  /// Forks of one branch or tag whose commits no entry of a branch or tag names that counts.
  std::vector<Fork> forks(RefKind kind, const std::string& name) const;
  /// Those of all of them.
  std::vector<Fork> forks(RefKind kind) const;

  /// For whoever is about to report that it stands where read_to_move() said, without moving it: throws conflict when
  /// that was not decided yet and another entry won. Takes up to the settle time where entries are contested.
  void confirm(RefKind kind, const std::string& name, const RefState& state, const Execution& execution) const;
  /// Moves it from `before` to `commit`. Throws conflict when someone else moved it first, network when it cannot be
  /// told whether it was moved. Takes the settle time where entries are contested.
  void move(RefKind kind, const std::string& name, const RefState& before, const Digest& commit,
            const Execution& execution) {
    add_entry(kind, name, before, commit, execution);
  }
  /// Deletes it as it stands in `before`; otherwise as move(). Its entries stay, and so do the commits that they name.
  void remove(RefKind kind, const std::string& name, const RefState& before, const Execution& execution) {
    add_entry(kind, name, before, std::nullopt, execution);
  }

  bool are_contested() const { return contest_.has_value(); }
  const Store& store() const { return *store_; }

 private:
  using Series = std::map<std::string, ContestedEntries>;  // by name
  struct Seen {
    Series series;
    std::optional<std::int64_t> now_ms;
  };
  /// The entries of `name` alone, or of all without one.
  Seen look(RefKind kind, const std::optional<std::string>& name) const;
  ContestedEntries entries_of(RefKind kind, const std::string& name) const;
  void require_exclusive_create() const;
  RefState newest_of(const std::vector<ContestedEntry>& line) const;
  std::vector<Fork> forks_in(const Seen& seen) const;
  /// Without a commit it is deleted.
  void add_entry(RefKind kind, const std::string& name, const RefState& before, const std::optional<Digest>& commit,
                 const Execution& execution);
  void add_numbered(RefKind kind, const std::string& name, const RefState& before, const std::optional<Digest>& commit);
  void add_contested(RefKind kind, const std::string& name, const RefState& before, const std::optional<Digest>& commit,
                     const Execution& execution);
  std::vector<std::string> write_contested(RefKind kind, const std::string& name, const RefState& before,
                                           const std::optional<Digest>& commit, const Execution& execution);
  void withdraw(RefKind kind, const std::string& name, const RefState& before, const std::vector<std::string>& writes);
  void settle(const Execution& execution) const;

  Store* store_;
  std::optional<Contest> contest_;
  Wait wait_;
};

/// "branches/" or "tags/".
std::string ref_folder(RefKind kind);

}  // namespace wdelta
