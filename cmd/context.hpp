// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "access.hpp"
#include "base/execution.hpp"
#include "base/json_fwd.hpp"
#include "checkpoint/checkpoint.hpp"
#include "declare.hpp"
#include "engine/engine.hpp"
#include "repo/repository.hpp"
#include "stage_stats.hpp"
#include "terminal_progress.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace wdelta::cmd {

/// What every command is given: the options that all have, the environment, and where work reports to.
struct Context {
  // Options of every command.
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  ThreadCounts threads{0};  // none: default_threads()
  std::string engine_name;
  bool no_progress = false;
  std::string color = "auto";
  NetworkArguments network;
  std::optional<StageStats> stage_stats;  // when --stats asks for it

  // From the environment.
  std::string default_repository;  // WDELTA_REPO

  // Made once the command line is read.
  std::string command;
  std::unique_ptr<TerminalProgress> progress;  // a store may fetch ahead, and report, as long as its repository is open
  std::stop_source stop;
  /// What the command does; returns the exit status.
  std::function<int()> run;
  bool answered = false;  // a document was printed

  Execution execution() {
    return {threads.all_along, progress.get(), stop.get_token(), stage_stats ? &stage_stats->clock : nullptr,
            threads.spare};
  }
  const Engine& engine() const;
  bool colored() const;
  /// An id as results have it: its first 12 digits, or all of them with -v.
  std::string shown(const Digest& id) const;
  /// Prints a document on a line of its own: what --json asks for.
  void print(Json document);
  std::filesystem::path state_directory() const;  // WDELTA_STATE_DIR, else XDG
};

/// A command: one file in this folder, one row in commands.cpp.
struct Command {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& app, Context& context);
};

std::span<const Command> commands();

void add_diff(CLI::App& app, Context& context);
void add_apply(CLI::App& app, Context& context);
void add_push(CLI::App& app, Context& context);
void add_pull(CLI::App& app, Context& context);
void add_log(CLI::App& app, Context& context);
void add_show(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_squash(CLI::App& app, Context& context);
void add_gc(CLI::App& app, Context& context);
void add_stats(CLI::App& app, Context& context);
void add_branch(CLI::App& app, Context& context);
void add_tag(CLI::App& app, Context& context);
void add_help(CLI::App& app, Context& context);

/// A repository and the commit in it that the user named.
struct OpenedCommit {
  std::shared_ptr<const Repository> repository;
  Commit commit;
};
/// Opens the repository with what the options and the environment say of its store.
Repository open_repository(const std::string& location, Context& context);
OpenedCommit open_commit(const std::string& location, Context& context);
Checkpoint checkpoint_of(const OpenedCommit& opened, Context& context);
/// Whether a checkpoint argument is no path but REPO@REV.
bool names_commit(const std::string& argument);
/// What a directory's own .wdeltaignore leaves out.
PathFilter ignore_filter(const std::filesystem::path& directory);
/// The directory that the repository of REPO@REV is, if it is one.
std::optional<std::filesystem::path> repository_directory_of(const std::string& argument, const Context& context);
/// A checkpoint argument: a path, or REPO@REV.
Checkpoint open_checkpoint(const std::string& argument, Context& context, const PathFilter& filter = {});

}  // namespace wdelta::cmd
