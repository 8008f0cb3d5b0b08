// SPDX-License-Identifier: Apache-2.0
#include "repo/push.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/path.hpp"
#include "checkpoint/stability.hpp"
#include "context.hpp"
#include "format.hpp"
#include "push_base.hpp"
#include "say.hpp"
#include "user/author.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct PushArguments {
  std::string checkpoint;
  std::string repository;
  std::string branch = k_main_branch;
  std::string message;
  std::optional<std::uint64_t> step;
  std::string tag;
  std::vector<std::string> meta;
  bool compress_anchors = false;
  std::string anchor = "auto";
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::optional<std::uint64_t> wait_stable_s;
  bool create = false;
  bool is_private = false;
  BaseArguments base;
};

CommitDraft draft_of(const PushArguments& arguments) {
  CommitDraft draft{arguments.message, author_in(environment), arguments.step, {}};
  for (const std::string& pair : arguments.meta) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) throw Error(Fault::usage, pair, "is not of the form K=V");
    draft.meta.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return draft;
}

// What the checkpoint's own .wdeltaignore leaves out, and what the options say.
PathFilter filter_of(const PushArguments& arguments) {
  PathFilter filter = ignore_filter(arguments.checkpoint);
  for (const std::string& pattern : arguments.include) filter.include(pattern);
  for (const std::string& pattern : arguments.exclude) filter.exclude(pattern);
  return filter;
}

Checkpoint open_to_push(const PushArguments& arguments, PushOptions& options, Context& context) {
  if (!std::filesystem::is_directory(arguments.checkpoint)) {
    if (!arguments.include.empty() || !arguments.exclude.empty())
      throw Error(Fault::usage, arguments.checkpoint, "is no directory, so there is nothing to include or exclude");
    if (!arguments.wait_stable_s && names_commit(arguments.checkpoint)) {
      const OpenedCommit opened = open_commit(arguments.checkpoint, context);
      options.source = CommitSource{opened.repository->id(), opened.commit.id};
      return checkpoint_of(opened, context);
    }
    if (!arguments.wait_stable_s) return open_checkpoint(arguments.checkpoint, context);
  }
  const PathFilter filter = filter_of(arguments);
  if (arguments.wait_stable_s) {
    return open_when_stable(arguments.checkpoint, filter, std::chrono::seconds(*arguments.wait_stable_s),
                            context.execution());
  }
  return open_checkpoint(arguments.checkpoint, context, filter);
}

Json to_json(const PushReport& report) {
  Json kinds = Json::object();
  for (const FileKind kind : k_file_kinds) {
    const KindBytes& bytes = report.kept.of(kind);
    kinds[name_of(kind)] = {
        {"files", bytes.file_count}, {"bytes", bytes.checkpoint_bytes}, {"stored_bytes", bytes.stored_bytes}};
  }
  return {{"commit", report.id.hex()},
          {"parent", report.parent ? Json(report.parent->hex()) : Json(nullptr)},
          {"created", report.created},
          {"files", report.file_count},
          {"checkpoint_bytes", report.checkpoint_bytes},
          {"stored_bytes", report.stored_bytes},
          {"delta_bytes", report.kept.delta_bytes},
          {"elements", report.kept.element_count},
          {"changed", report.kept.change_count},
          {"kinds", kinds},
          {"compared_with_repository", report.compared_with_repository},
          {"anchor_bytes", report.anchor_bytes},
          {"base", report.base ? cmd::to_json(*report.base) : Json(nullptr)}};
}

// The id goes to stdout, for scripts; everything else is for people and goes to stderr.
void print_report(const PushReport& report) {
  if (!report.created) {
    say("nothing to push: the tip is this checkpoint already\n");
    return;
  }
  if (report.base) cmd::print_report(*report.base);
  say("{} files, {}; stored {} ({})", report.file_count, size_text(report.checkpoint_bytes),
      size_text(report.stored_bytes), share_text(report.stored_bytes, report.checkpoint_bytes));
  const KeptBytes& kept = report.kept;
  if (kept.element_count > 0) {
    say("; {} of the weights changed", share_text(kept.change_count, kept.element_count));
    if (kept.change_count > 0 && kept.delta_bytes > 0) {
      say(", {:.2f} bits a change",
          8.0 * static_cast<double>(kept.delta_bytes) / static_cast<double>(kept.change_count));
    }
  }
  if (report.anchor_bytes > 0) say("; anchor of {}", size_text(report.anchor_bytes));
  say("\n");
  for (const FileKind kind : k_file_kinds) {
    const KindBytes& bytes = kept.of(kind);
    if (bytes.file_count == 0) continue;
    say("  {:<10} {:>6} files {:>10}, stored {}\n", name_of(kind), bytes.file_count, size_text(bytes.checkpoint_bytes),
        size_text(bytes.stored_bytes));
  }
}

// A repository inside the checkpoint would be pushed into itself.
void refuse_repository_inside(const std::string& checkpoint, const std::string& repository) {
  const auto directory = directory_named(repository);
  if (!directory || !lies_within(*directory, checkpoint)) return;
  throw Error(Fault::usage, repository, "lies inside the checkpoint", "keep the repository somewhere else");
}

int run_push(const PushArguments& arguments, Context& context) {
  if (arguments.base.repair) {
    if (!arguments.repository.empty())
      throw Error(Fault::usage, arguments.repository, "is one argument too many",
                  "wdelta push --repair --base DIR REPO");
    return run_repair(arguments.base, arguments.checkpoint, context);
  }
  if (arguments.repository.empty()) throw Error(Fault::usage, "", "REPO is required", "wdelta push --help");
  const CommitDraft draft = draft_of(arguments);
  PushOptions options;
  options.branch = arguments.branch;
  if (!arguments.tag.empty()) options.tag = arguments.tag;
  options.anchor = arguments.anchor == "now"     ? AnchorChoice::now
                   : arguments.anchor == "never" ? AnchorChoice::never
                                                 : AnchorChoice::automatic;
  if (arguments.compress_anchors) options.whole = WholeWeights::compressed;
  options.state_directory = context.state_directory();
  options.base = base_options(arguments.base, filter_of(arguments));
  const Checkpoint checkpoint = open_to_push(arguments, options, context);
  if (checkpoint.files().empty()) {
    throw Error(Fault::usage, arguments.checkpoint, "has no files to push",
                "see --include, --exclude and .wdeltaignore in wdelta help push");
  }
  refuse_repository_inside(arguments.checkpoint, arguments.repository);
  check_push(checkpoint, draft, options);
  Access access = access_to(arguments.repository, context.network);
  if (arguments.create) access.creation = BucketCreation::open_to_all;
  if (arguments.is_private) access.creation = BucketCreation::private_to_owner;
  Repository repository = Repository::open_or_create(arguments.repository, access, context.execution());
  const PushReport report = push(repository, checkpoint, draft, options, context.engine(), context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print(to_json(report));
  } else {
    fmt::print("{}\n", report.id.hex());
    std::fflush(stdout);
    if (!context.quiet) print_report(report);
  }
  return 0;
}

}  // namespace

void add_push(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<PushArguments>();
  declare(app, "CHECKPOINT", arguments->checkpoint, "A checkpoint directory, a file, or REPO@REV")
      .required()
      .check(not_empty);
  declare(app, "REPO", arguments->repository, "The repository; it is made when there is none");
  // What says something of a commit, which a repair does not make.
  const std::vector<Declared> of_commit = {
      declare(app, "-b,--branch", arguments->branch,
              "The branch to commit to; it is made when there is none (default: main)")
          .value_name("BRANCH")
          .check(not_empty),
      declare(app, "-m,--message", arguments->message, "What to say of it; the log shows its first line")
          .value_name("MESSAGE"),
      declare(app, "--step", arguments->step, "The training step, a number; REPO@step:N finds the commit")
          .check(whole_number)
          .value_name("N"),
      declare(app, "--tag", arguments->tag, "Tag the commit; nothing is pushed when the tag is on another one")
          .value_name("T")
          .check(not_empty),
      declare(app, "--meta", arguments->meta, "Keep the value V under the key K; may be repeated")
          .check(not_empty)
          .value_name("K=V")
          .repeated(),
      declare(app, "--anchor", arguments->anchor,
              "Store files whole as well, not as deltas alone, once the branch has moved (default: auto)")
          .value_name("WHEN")
          .one_of({"auto", "never", "now"}),
      declare_flag(app, "--compress-anchors", arguments->compress_anchors,
                   "Store weights that are stored whole compressed: smaller, but no plain files any more"),
      declare(app, "--include", arguments->include, "Push only files that GLOB matches; may be repeated")
          .value_name("GLOB")
          .check(not_empty)
          .repeated(),
      declare(app, "--exclude", arguments->exclude, "Leave out files that GLOB matches; may be repeated")
          .value_name("GLOB")
          .check(not_empty)
          .repeated(),
      declare(app, "--wait-stable", arguments->wait_stable_s,
              "Wait until nothing has changed for S seconds and no shard is missing or cut short")
          .value_name("S")
          .in_range(1, 86400)};
  const Declared create = declare_flag(app, "--create", arguments->create, "Make the bucket when there is none");
  const Declared is_private =
      declare_flag(app, "--private", arguments->is_private, "Make it so that only its owner can read it").needs(create);
  add_stage_option(app, context);
  const Declared repair = add_base_options(app, arguments->base).excludes(create).excludes(is_private);
  for (const Declared& option : of_commit) repair.excludes(option);
  declare_run(app, context, [arguments, &context] { return run_push(*arguments, context); });
}

}  // namespace wdelta::cmd
