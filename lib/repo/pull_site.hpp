// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/file_lock.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace wdelta {

/// How a pull gets its files into the directory: each into its place, or all at once.
enum class PullWay { in_place, swap };

/// A directory that is locked for a pull and, when it is to be swapped, the one beside it that will take its place.
///
/// Of DIR these siblings may lie in its parent while a pull is at work, or after one was killed:
///   .DIR.wdelta-newdir   being built; just behind the exchange, what DIR was before
///   .DIR.wdelta-olddir   where names cannot be exchanged: what DIR was before, until the new one is in place
///   .DIR.wdelta-rmXXXX   being removed
/// The next pull into DIR, of either kind, finishes an exchange that was killed half-way and removes the others.
class PullSite {
 public:
  /// Waits for other pulls into `directory`. With PullWay::in_place makes it, with PullWay::swap makes its sibling.
  /// Throws local for a mount point, which cannot be exchanged.
  PullSite(const std::filesystem::path& directory, PullWay way, const Execution& execution);
  PullSite(const PullSite&) = delete;
  /// Removes what was being built, or what is left of what was replaced; and the directory, when it was made for a pull
  /// that wrote nothing.
  ~PullSite();

  /// Its own name, symlinks resolved.
  const std::filesystem::path& directory() const { return directory_; }
  bool is_there() const { return lock_.has_value(); }
  /// What is being built; behind the exchange, what the directory was.
  const std::filesystem::path& sibling() const { return next_; }

  /// Gives the sibling the directory's name in one step. What is in it must be on the disk.
  void exchange();

 private:
  void leave() noexcept;
  bool try_to_lock();
  bool lock_sibling();
  bool finish_exchange();
  void exchange_by_two_renames();
  void remove_away(const std::filesystem::path& path, std::optional<FileLock>& lock_in_it);
  void remove_put_away();
  std::filesystem::path beside(const std::string& suffix) const;

  std::filesystem::path directory_;
  PullWay way_;
  const Execution* execution_;
  std::filesystem::path next_;
  std::filesystem::path old_;
  bool made_directory_ = false;
  // Locks are files in what they lock, and move with it. The sibling's is held too: it is the directory's as soon as
  // the names are exchanged.
  std::optional<FileLock> lock_;
  std::optional<FileLock> next_lock_;
};

}  // namespace wdelta
