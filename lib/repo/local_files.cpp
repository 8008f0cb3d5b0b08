// SPDX-License-Identifier: Apache-2.0
#include "repo/local_files.hpp"

#include "base/error.hpp"
#include "base/reader_digest.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace {

// Not even a program that sets a file's mtime back has written to it since the state was saved.
std::optional<Digest> vouched_for(const PullState& state, std::int64_t state_mtime_ns, const CheckpointFile& file) {
  const auto known = state.files.find(file.path);
  if (known == state.files.end()) return std::nullopt;
  const FileStamp& stamp = known->second.stamp;
  if (stamp != file.stamp || stamp.ctime_ns != file.stamp->ctime_ns) return std::nullopt;
  if (settled_ns(stamp) >= state_mtime_ns) return std::nullopt;
  return known->second.digest;
}

}  // namespace

PullState::Pulled LocalFiles::Held::pulled() const {
  PullState::Pulled pulled{digest, *file.stamp};
  if (!is_settled) pulled.stamp.ctime_ns = PullState::k_no_ctime_ns;
  return pulled;
}

Error changed_meanwhile(const std::filesystem::path& path, const char* how) {
  return {Fault::local, path.string(), fmt::format("was {} while pull was at work", how),
          "it is as it was left; pull again says what differs"};
}

void require_unchanged(const std::filesystem::path& directory, const std::string& place, const LocalFiles& local) {
  const std::filesystem::path path = directory / place;
  if (is_symlink(symlink_status(path))) return;  // which alone is replaced, whatever it leads to
  const auto held = local.held.find(place);
  if (held != local.held.end()) {
    const auto stamp = stamp_of(path);
    if (!stamp || *stamp == held->second.file.stamp) return;
  } else if (std::ranges::binary_search(local.changed, place) ||
             std::ranges::binary_search(local.loaded_strays, place) || !exists(symlink_status(path)) ||
             is_directory(symlink_status(path))) {
    return;
  }
  throw changed_meanwhile(path);
}

LocalFiles survey(const std::filesystem::path& directory, const PullState& state, const Manifest& wanted,
                  const RecipeGraph& recipes, const Execution& execution) {
  const auto state_stamp = stamp_of(pull_folder(directory) / "state.json");
  const auto begun_ns = set_times_to_now(pull_lock(directory));
  const Checkpoint checkpoint = Checkpoint::open(directory, Shards::any, {}, Others::tell_apart);
  LocalFiles local;
  const auto is_known = [&](const std::string& place) {
    return wanted.find(place) != nullptr || state.files.contains(place) || state.expected.contains(place);
  };
  const auto add_stray = [&](const std::string& place) {
    (is_loaded_by_name(place) ? local.loaded_strays : local.strays).push_back(place);
  };
  for (const std::string& place : checkpoint.others()) {
    // Where a file was or belongs it is a change like any other, to be replaced by force.
    if (is_known(place)) {
      local.changed.push_back(place);
    } else {
      add_stray(place);
    }
  }
  for (const CheckpointFile& file : checkpoint.files()) {
    if (!is_known(file.path)) {
      add_stray(file.path);
      continue;
    }
    const ManifestFile* want = wanted.find(file.path);
    const auto known = state.files.find(file.path);
    const auto expected = state.expected.find(file.path);
    auto digest = state_stamp ? vouched_for(state, state_stamp->mtime_ns, file) : std::nullopt;
    const bool is_settled = digest || (begun_ns && settled_ns(*file.stamp) < *begun_ns);
    if (!digest) digest = digest_of(*file.open(), execution);
    const bool is_link = is_symlink(symlink_status(directory / file.path));
    local.held.emplace(file.path, LocalFiles::Held{file, *digest, is_settled, is_link});
    if (want != nullptr && want->identity.digest == *digest) continue;
    const bool ours = (known != state.files.end() && known->second.digest == *digest) ||
                      (expected != state.expected.end() && expected->second == *digest) || recipes.can_make(*digest);
    if (!ours) {
      local.changed.push_back(file.path);
    } else if (want == nullptr) {
      local.unneeded.push_back(file.path);
    }
  }
  for (auto* places : {&local.changed, &local.loaded_strays, &local.strays}) std::ranges::sort(*places);
  return local;
}

}  // namespace wdelta
