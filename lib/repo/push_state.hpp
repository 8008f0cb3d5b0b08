// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/file.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace wdelta {

/// What the last push from this machine to one branch of one repository left behind, kept under the state directory:
/// where the checkpoint lay that the commit was made from, so that the next push can compare with it.
struct PushState {
  Digest commit;
  std::filesystem::path checkpoint;         ///< absolute
  std::map<std::string, FileStamp> stamps;  ///< by place
};

/// Where the state of a branch is kept, and where its lock.
std::filesystem::path push_state_path(const std::filesystem::path& state_directory, const std::string& repository_id,
                                      const std::string& branch);

/// Nothing when there is none, or none that can be read: state is a convenience, never needed.
std::optional<PushState> load_push_state(const std::filesystem::path& path);
void save_push_state(const std::filesystem::path& path, const PushState& state);

}  // namespace wdelta
