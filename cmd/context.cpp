// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

#include "access.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "repo/commit_checkpoint.hpp"
#include "repo/pull_state.hpp"
#include "store/store.hpp"
#include "user/user_access.hpp"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace wdelta::cmd {

const Engine& Context::engine() const {
  const std::string from_environment = environment("WDELTA_ENGINE");
  if (!engine_name.empty()) return engine_named(engine_name);
  return engine_named(from_environment.empty() ? "auto" : from_environment);
}

std::string Context::shown(const Digest& id) const { return verbose > 0 ? id.hex() : id.hex().substr(0, 12); }

bool Context::colored() const {
  if (color != "auto") return color == "always";
  return isatty(STDOUT_FILENO) != 0 && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

void Context::print(Json document) {
  answered = true;
  if (stage_stats) stage_stats->add_to(document);
  // A path may be no UTF-8, a document is.
  fmt::print("{}\n", document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::filesystem::path Context::state_directory() const { return wdelta::state_directory(environment); }

Repository open_repository(const std::string& location, Context& context) {
  return Repository::open(location, access_to(location, context.network), context.execution());
}

OpenedCommit open_commit(const std::string& argument, Context& context) {
  const Location location = parse_location(argument, context.default_repository);
  auto repository = std::make_shared<const Repository>(open_repository(location.repository, context));
  Commit commit = repository->commit_at(location.revision);
  return {std::move(repository), std::move(commit)};
}

Checkpoint checkpoint_of(const OpenedCommit& opened, Context& context) {
  return wdelta::checkpoint_of(opened.repository, opened.commit, context.engine(), context.execution());
}

bool names_commit(const std::string& argument) {
  std::error_code ignored;
  return !std::filesystem::exists(argument, ignored) &&
         (argument.find('@') != std::string::npos || has_scheme(argument));
}

PathFilter ignore_filter(const std::filesystem::path& directory) {
  constexpr std::uint64_t k_longest_ignore_file = std::uint64_t{1} << 20;
  PathFilter filter;
  const std::filesystem::path ignore_file = directory / ".wdeltaignore";
  if (std::filesystem::is_regular_file(ignore_file))
    filter.exclude_lines(read_small_file(ignore_file, k_longest_ignore_file));
  return filter;
}

std::optional<std::filesystem::path> repository_directory_of(const std::string& argument, const Context& context) {
  if (!names_commit(argument)) return std::nullopt;
  return directory_named(parse_location(argument, context.default_repository).repository);
}

Checkpoint open_checkpoint(const std::string& argument, Context& context, const PathFilter& filter) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(argument) / "wdelta.json", ignored)) {
    throw Error(Fault::usage, argument, "is a repository or a delta, not a checkpoint",
                "REPO@REV names the checkpoint of a commit");
  }
  if (!names_commit(argument)) {
    Checkpoint checkpoint = Checkpoint::open(argument, Shards::required, filter);
    require_no_pull(checkpoint);
    return checkpoint;
  }
  return checkpoint_of(open_commit(argument, context), context);
}

}  // namespace wdelta::cmd
