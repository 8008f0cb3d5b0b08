// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "context.hpp"
#include "format.hpp"
#include "repo/all_commits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace wdelta::cmd {

namespace {

struct LogArguments {
  std::string location;
  std::size_t count = SIZE_MAX;
  bool all = false;
};

// Branches and tags by the commit that they name.
std::map<Digest, std::vector<std::string>> names_of_commits(const Repository& repository) {
  std::map<Digest, std::vector<std::string>> names;
  for (const auto& [name, ref] : repository.refs().list(RefKind::branch)) names[*ref.commit].push_back(name);
  for (const auto& [name, ref] : repository.refs().list(RefKind::tag)) names[*ref.commit].push_back("tag: " + name);
  return names;
}

Json to_json(const CommitSummary& commit, const std::vector<std::string>& names) {
  return {{"commit", commit.id.hex()},
          {"time", commit.time},
          {"step", commit.step ? Json(*commit.step) : Json(nullptr)},
          {"message", commit.title},
          {"names", names}};
}

void print(const CommitSummary& commit, const std::vector<std::string>& names, Context& context) {
  if (context.json) return context.print(to_json(commit, names));
  const char* yellow = context.colored() ? "\033[33m" : "";
  const char* plain = context.colored() ? "\033[0m" : "";
  const std::string id = context.shown(commit.id);
  const std::string step = commit.step ? fmt::format("step {}", *commit.step) : "";
  std::string line = fmt::format("  {}  {:<10}  {}{}", commit.time, step,
                                 names.empty() ? "" : fmt::format("({}) ", fmt::join(names, ", ")), commit.title);
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}{}{}{}\n", yellow, id, plain, printable(line));
}

// Commits that somebody takes for the tip of `branch` although the store decided otherwise.
void print_forks(const Repository& repository, const std::string& branch, Context& context) {
  if (why_not_a_ref_name(branch) != nullptr) return;
  for (const Fork& fork : repository.refs().forks(RefKind::branch, branch)) {
    const Commit commit = repository.commit(fork.commit);
    print(summary_of(commit.id, commit.manifest, 0), {"fork of " + branch}, context);
  }
}

int print_all(const Repository& repository, std::size_t most, Context& context) {
  auto names = names_of_commits(repository);
  for (const Fork& fork : repository.refs().forks(RefKind::branch))
    names[fork.commit].push_back("fork of " + fork.name);
  std::vector<CommitSummary> commits = all_commits(repository, context.execution());
  commits.resize(std::min(commits.size(), most));
  for (const CommitSummary& commit : commits) print(commit, names[commit.id], context);
  return 0;
}

int run_log(const LogArguments& arguments, Context& context) {
  const Location location = parse_location(arguments.location, context.default_repository);
  if (arguments.all && !location.revision.empty()) {
    throw Error(Fault::usage, arguments.location, "names a revision, and --all begins nowhere",
                "leave out the revision, or --all");
  }
  const Repository repository = open_repository(location.repository, context);
  if (arguments.all) return print_all(repository, arguments.count, context);
  const auto names = names_of_commits(repository);
  std::size_t printed = 0;
  repository.walk(repository.commit_at(location.revision), [&](const CommitSummary& commit) {
    if (printed == arguments.count) return false;
    context.execution().check_stop();
    const auto found = names.find(commit.id);
    print(commit, found == names.end() ? std::vector<std::string>() : found->second, context);
    return ++printed < arguments.count;
  });
  if (printed < arguments.count)
    print_forks(repository, location.revision.empty() ? k_main_branch : location.revision, context);
  return 0;
}

}  // namespace

void add_log(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<LogArguments>();
  declare(app, "REPO[@REV]", arguments->location, "Where to begin (default revision: the tip of main)")
      .required()
      .check(not_empty);
  declare(app, "-n,--max-count", arguments->count, "Print at most this many commits")
      .check(whole_number)
      .value_name("N");
  declare_flag(app, "-a,--all", arguments->all, "Print every commit there is, whether a name leads to it or not");
  declare_run(app, context, [arguments, &context] { return run_log(*arguments, context); });
}

}  // namespace wdelta::cmd
