// SPDX-License-Identifier: Apache-2.0
#include "repo/pull.hpp"

#include "base/json.hpp"
#include "base/printable.hpp"
#include "context.hpp"
#include "format.hpp"
#include "say.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace wdelta::cmd {

namespace {

struct PullArguments {
  std::string location;
  std::string directory;
  bool force = false;
  bool swap = false;
};

int run_pull(const PullArguments& arguments, Context& context) {
  const OpenedCommit opened = open_commit(arguments.location, context);
  const auto pull_as_asked = arguments.swap ? pull_swap : pull;
  const PullReport report = pull_as_asked(*opened.repository, opened.commit, arguments.directory,
                                          arguments.force ? LocalChanges::discard : LocalChanges::refuse,
                                          context.engine(), context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print({{"commit", opened.commit.id.hex()},
                   {"directory", arguments.directory},
                   {"written", report.written_files},
                   {"kept", report.kept_files},
                   {"removed", report.removed_files},
                   {"written_bytes", report.written_bytes},
                   {"fetched_bytes", report.fetched_bytes},
                   {"strays", report.strays}});
  } else if (!context.quiet) {
    fmt::print("{} is commit {}: {} files written ({}, {} fetched), {} kept, {} removed\n", arguments.directory,
               opened.commit.id.hex().substr(0, 12), report.written_files, size_text(report.written_bytes),
               size_text(report.fetched_bytes), report.kept_files, report.removed_files);
    if (!report.strays.empty())
      say("not of the commit, left alone: {}\n", printable(fmt::format("{}", fmt::join(report.strays, ", "))));
  }
  return 0;
}

}  // namespace

void add_pull(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<PullArguments>();
  declare(app, "REPO[@REV]", arguments->location, "What to pull (default revision: the tip of main)")
      .required()
      .check(not_empty);
  declare(app, "DIR", arguments->directory, "The directory to make it in; it may hold another commit")
      .required()
      .check(not_empty);
  declare_flag(app, "-f,--force", arguments->force,
               "Replace files that were changed locally; remove weights and indexes not of the commit");
  declare_flag(app, "--swap", arguments->swap, "Build all of it beside DIR, and exchange the two in one step");
  add_stage_option(app, context);
  declare_run(app, context, [arguments, &context] { return run_pull(*arguments, context); });
}

}  // namespace wdelta::cmd
