// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/file.hpp"
#include "checkpoint/checkpoint.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace wdelta {

/// What pull keeps beside a checkpoint, in DIR/.wdelta/state.json: wdelta-repository(5), "Beside a pulled checkpoint".
struct PullState {
  /// A ctime that no file has: the stamp vouches for nothing. (0 is what file systems say that know none.)
  static constexpr std::int64_t k_no_ctime_ns = -1;
  struct Pulled {
    Digest digest;
    FileStamp stamp;
  };
  std::string repository;
  std::optional<Digest> commit;            ///< nothing while a pull is at work
  std::map<std::string, Pulled> files;     ///< by place: what pull wrote and saw there
  std::map<std::string, Digest> expected;  ///< while a pull is at work: what it is going to write
};

std::filesystem::path pull_folder(const std::filesystem::path& directory);
/// What a pull holds while it is at work there.
std::filesystem::path pull_lock(const std::filesystem::path& directory);
/// Where files are while they arrive; what a pull that was killed left there the next one goes on with.
std::filesystem::path incoming_folder(const std::filesystem::path& directory);
/// Where indexes and config files are until the weights are complete.
std::filesystem::path aside_folder(const std::filesystem::path& directory);
/// Removes both, which no pull needs once `directory` is what it should be.
void remove_work_folders(const std::filesystem::path& directory) noexcept;
/// The state of `directory`; empty when there is none. Throws corrupt for one that is damaged.
PullState load_pull_state(const std::filesystem::path& directory);
/// Throws local where a pull that is at work, or was killed, is going to write files of a checkpoint on disk, be it
/// into a directory around it, in it, or that its symlinks lead to: it may be a mixture. A single file is whole.
void require_no_pull(const Checkpoint& checkpoint);
void save_pull_state(const std::filesystem::path& directory, const PullState& state);
/// How long to wait, some ms at most, before a state is saved for the last time at about `now_ns`: so that the next
/// pull can believe the stamps of files that would take it longer to hash.
std::chrono::nanoseconds settling_time(const PullState& state, std::int64_t now_ns);
/// Waits for so long.
void let_settle(const PullState& state);

}  // namespace wdelta
