// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_state.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/output_file.hpp"
#include "base/path.hpp"
#include "repo/file_stamp_json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <thread>
#include <utility>

namespace wdelta {

namespace fs = std::filesystem;

namespace {
constexpr const char* k_pull_state_format = "wdelta-pull-state";
constexpr std::uint64_t k_longest_pull_state = std::uint64_t{1} << 30;
fs::path state_path(const fs::path& directory) { return pull_folder(directory) / "state.json"; }
}  // namespace

fs::path pull_folder(const fs::path& directory) { return directory / ".wdelta"; }

fs::path pull_lock(const fs::path& directory) { return pull_folder(directory) / "lock"; }

fs::path incoming_folder(const fs::path& directory) { return pull_folder(directory) / "incoming"; }

fs::path aside_folder(const fs::path& directory) { return pull_folder(directory) / "aside"; }

void remove_work_folders(const fs::path& directory) noexcept {
  std::error_code ignored;
  fs::remove_all(aside_folder(directory), ignored);
  fs::remove_all(incoming_folder(directory), ignored);
}

PullState load_pull_state(const fs::path& directory) {
  PullState state;
  const fs::path path = state_path(directory);
  const std::string object = path.string();
  if (!stamp_of(path)) return state;
  const ParsedJson json = open_sealed(read_small_file(path, k_longest_pull_state), k_pull_state_format, object);
  state.repository = string_member(json, "repository", object);
  if (!member(json, "commit", object).is_null()) state.commit = digest_member(json, "commit", object);
  for (const auto& [place, file] : member(json, "files", object).items()) {
    require_place(place, object);
    state.files[place] = {digest_member(file, "digest", object), file_stamp_from(file, object)};
  }
  const ParsedJson& expected = member(json, "expected", object);
  for (const auto& [place, digest] : expected.items()) {
    require_place(place, object);
    state.expected[place] = digest_member(expected, place.c_str(), object);
  }
  return state;
}

namespace {

// What a pull is going to write into `directory`. Nothing where its state is damaged: it vouches for nothing then, and
// says nothing.
std::map<std::string, Digest> expected_in(const fs::path& directory) try {
  return load_pull_state(directory).expected;
} catch (const Error& error) {
  if (error.fault() != Fault::corrupt) throw;
  return {};
}

Error may_be_mixture(const std::string& checkpoint, const std::string& pulled) {
  return {Fault::local, checkpoint,
          fmt::format("a pull into {} is at work or was killed, so that it may be a mixture", pulled),
          "wdelta pull finishes it"};
}

// Looks at all directories around `path`, a directory or a file.
void require_no_pull_around(const fs::path& path, const std::string& checkpoint) {
  for (fs::path directory = path.parent_path();; directory = directory.parent_path()) {
    std::error_code is_closed_to_us;
    if (fs::exists(state_path(directory), is_closed_to_us)) {
      const std::string place = path.lexically_relative(directory).generic_string();
      for (const auto& [expected, digest] : expected_in(directory)) {
        if (expected == place || expected.starts_with(place + "/"))
          throw may_be_mixture(checkpoint, directory.string());
      }
    }
    if (directory == directory.parent_path()) return;
  }
}

}  // namespace

void require_no_pull(const Checkpoint& checkpoint) {
  if (checkpoint.is_single_file()) return;
  const fs::path root = fs::weakly_canonical(checkpoint.name());
  std::set<fs::path> inside = {root};
  for (const CheckpointFile& file : checkpoint.files()) {
    const fs::path path = root / file.path;
    for (fs::path directory = path.parent_path(); inside.insert(directory).second;) directory = directory.parent_path();
    std::error_code gone;
    if (fs::is_symlink(path, gone)) require_no_pull_around(fs::weakly_canonical(path), checkpoint.name());
  }
  for (const fs::path& directory : inside) {
    if (!expected_in(directory).empty())
      throw may_be_mixture(checkpoint.name(), directory == root ? "it" : directory.string());
  }
  require_no_pull_around(root, checkpoint.name());
}

void save_pull_state(const fs::path& directory, const PullState& state) {
  Json files = Json::object();
  for (const auto& [place, file] : state.files) {
    Json pulled = to_json(file.stamp);
    pulled["digest"] = file.digest.hex();
    append_member(files, place, std::move(pulled));
  }
  Json expected = Json::object();
  for (const auto& [place, digest] : state.expected) append_member(expected, place, digest.hex());
  write_file(state_path(directory),
             seal({{"format", k_pull_state_format},
                   {"version", 1},
                   {"repository", state.repository},
                   {"commit", state.commit ? Json(state.commit->hex()) : Json(nullptr)},
                   {"files", files},
                   {"expected", expected}}),
             Overwrite::yes, Durability::synced);
}

std::chrono::nanoseconds settling_time(const PullState& state, std::int64_t now_ns) {
  constexpr std::uint64_t k_worth_waiting_bytes = std::uint64_t{256} << 20;
  constexpr std::int64_t k_longest_ns = 40'000'000;  // where stamps are coarse it would take seconds
  constexpr std::int64_t k_tick_ns = 10'000'000;     // by which the state's own stamp may be behind
  std::int64_t longest_ns = 0;
  std::uint64_t unsettled_bytes = 0;
  for (const auto& [place, file] : state.files) {
    const std::int64_t settled = settled_ns(file.stamp);
    if (settled <= now_ns - k_tick_ns || settled > now_ns - k_tick_ns + k_longest_ns) continue;
    longest_ns = std::max(longest_ns, settled - (now_ns - k_tick_ns));
    unsettled_bytes += file.stamp.size_bytes;
  }
  return std::chrono::nanoseconds(unsettled_bytes >= k_worth_waiting_bytes ? longest_ns : 0);
}

void let_settle(const PullState& state) {
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  std::this_thread::sleep_for(settling_time(state, now.count()));
}

}  // namespace wdelta
