// SPDX-License-Identifier: Apache-2.0
#include "repo/push_state.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/leftovers.hpp"
#include "base/output_file.hpp"
#include "base/path.hpp"
#include "repo/file_stamp_json.hpp"

#include <algorithm>

namespace wdelta {

namespace fs = std::filesystem;

namespace {
constexpr const char* k_push_state_format = "wdelta-push-state";
constexpr std::uint64_t k_longest_push_state = std::uint64_t{1} << 30;
}  // namespace

fs::path push_state_path(const fs::path& state_directory, const std::string& repository_id, const std::string& branch) {
  std::string file = branch;
  std::ranges::replace(file, '/', '@');  // '@' is in no branch name
  return state_directory / "push" / repository_id / (file + ".json");
}

std::optional<PushState> load_push_state(const fs::path& path) try {
  const std::string object = path.string();
  const ParsedJson json = open_sealed(read_small_file(path, k_longest_push_state), k_push_state_format, object);
  PushState state;
  state.commit = digest_member(json, "commit", object);
  state.checkpoint = string_member(json, "checkpoint", object);
  for (const auto& [place, stamp] : member(json, "files", object).items())
    state.stamps[place] = file_stamp_from(stamp, object);
  return state;
} catch (const Error&) {
  return std::nullopt;
}

void save_push_state(const fs::path& path, const PushState& state) {
  if (!is_utf8(state.checkpoint.string())) {
    throw Error(Fault::unsupported, state.checkpoint.string(), "is not UTF-8, so that it cannot be remembered");
  }
  Json files = Json::object();
  for (const auto& [place, stamp] : state.stamps) append_member(files, place, to_json(stamp));
  make_directories(path.parent_path());
  remove_leftovers_of(path);
  write_file(path,
             seal({{"format", k_push_state_format},
                   {"version", 1},
                   {"commit", state.commit.hex()},
                   {"checkpoint", state.checkpoint.string()},
                   {"files", files}}),
             Overwrite::yes, Durability::cached);
}

}  // namespace wdelta
