// SPDX-License-Identifier: Apache-2.0
#include "repo/verify.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "context.hpp"
#include "format.hpp"
#include "user/exit_codes.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace wdelta::cmd {

namespace {

namespace fs = std::filesystem;

struct VerifyArguments {
  std::string subject;
  std::string location;
  bool deep = false;
  bool quick = false;

  VerifyDepth depth() const { return deep ? VerifyDepth::deep : quick ? VerifyDepth::quick : VerifyDepth::objects; }
};

// What is verified, and what it means when something is found.
struct Outcome {
  VerifyReport report;
  std::string subject;
  Fault fault_when_found = Fault::corrupt;
};

std::string what_is_proven(VerifyDepth depth, const VerifyReport& report) {
  if (depth == VerifyDepth::quick) return "names only what is there (nothing was read)";
  if (depth == VerifyDepth::objects) return "is whole";
  const std::size_t taken = report.taken_count;
  return fmt::format("is whole, and every commit{} rebuilds bit for bit",
                     taken == 0 ? "" : fmt::format(" but {} that {} given up", taken, taken == 1 ? "was" : "were"));
}

Outcome verify(const VerifyArguments& arguments, Context& context) {
  const Execution execution = context.execution();
  const auto require_no_depth = [&](const char* what) {
    if (arguments.deep || arguments.quick)
      throw Error(Fault::usage, arguments.subject, fmt::format("is {}, which is always read whole", what),
                  "--deep and --quick are for repositories");
  };
  if (!arguments.location.empty()) {
    require_no_depth("a directory");
    const OpenedCommit opened = open_commit(arguments.location, context);
    return {verify_directory(*opened.repository, opened.commit, arguments.subject, context.engine(), execution),
            fmt::format("{} is commit {}", arguments.subject, opened.commit.id.hex()), Fault::verification};
  }
  std::error_code ignored;
  if (fs::is_regular_file(arguments.subject, ignored) || is_delta_directory(arguments.subject)) {
    require_no_depth("a delta");
    return {verify_delta(arguments.subject, execution), fmt::format("{} is whole", arguments.subject)};
  }
  if (const fs::file_status status = fs::status(arguments.subject, ignored); fs::is_other(status))
    throw Error(Fault::local, arguments.subject, "is neither a directory nor a regular file");
  if (fs::is_directory(fs::path(arguments.subject) / ".wdelta", ignored)) {
    throw Error(Fault::usage, arguments.subject, "was pulled, and is verified against a commit",
                "wdelta verify DIR REPO@REV");
  }
  const Location location = parse_location(arguments.subject, context.default_repository);
  if (location.revision.empty()) {
    const VerifyDepth depth = arguments.depth();
    VerifyReport report =
        verify_repository(open_repository(location.repository, context), depth, context.engine(), execution);
    const std::string proven = what_is_proven(depth, report);
    return {std::move(report), fmt::format("{} {}", arguments.subject, proven)};
  }
  require_no_depth("a commit");
  const OpenedCommit opened = open_commit(arguments.subject, context);
  return {verify_commit(*opened.repository, opened.commit, context.engine(), execution),
          fmt::format("{} rebuilds bit for bit", opened.commit.id.hex())};
}

int run_verify(const VerifyArguments& arguments, Context& context) {
  const Outcome outcome = verify(arguments, context);
  context.progress->wipe();
  const VerifyReport& report = outcome.report;
  if (context.json) {
    Json findings = Json::array();
    for (const Finding& finding : report.findings) {
      findings.push_back({{"object", finding.object}, {"what", finding.what}, {"tensors", finding.tensors}});
    }
    Json unseen = Json::array();
    for (const Unseen& each : report.unseen) unseen.push_back({{"object", each.object}, {"what", each.what}});
    context.print({{"ok", report.is_ok()},
                   {"checked", report.checked},
                   {"checked_bytes", report.checked_bytes},
                   {"findings", findings},
                   {"unseen", unseen}});
  } else {
    for (const Finding& finding : report.findings) {
      fmt::print("{}\n", printable(fmt::format("{}: {}", finding.object, finding.what)));
      if (!finding.tensors.empty())
        fmt::print("  tensors that differ: {}\n", printable(fmt::format("{}", fmt::join(finding.tensors, ", "))));
    }
    for (const Unseen& each : report.unseen)
      fmt::print("{}\n", printable(fmt::format("{}: not looked at: {}", each.object, each.what)));
  }
  if (!report.is_ok()) std::fflush(stdout);
  if (!report.findings.empty()) {
    throw Error(outcome.fault_when_found, arguments.subject,
                fmt::format("{} of {} {} wrong: {}", report.findings.size(), report.checked,
                            report.findings.size() == 1 ? "is" : "are", report.findings.front().object),
                report.hint);
  }
  if (!report.unseen.empty()) {
    const Unseen& first = report.unseen.front();
    throw Error(first.fault, arguments.subject,
                fmt::format("was not looked at whole: {}: {}", first.object, first.what), report.hint);
  }
  if (!context.json && !context.quiet)
    fmt::print("ok: {} ({} checked, {})\n", outcome.subject, report.checked, size_text(report.checked_bytes));
  return 0;
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<VerifyArguments>();
  declare(app, "WHAT", arguments->subject, "DIR with REPO@REV behind it; or REPO@REV, REPO, or a delta alone")
      .required()
      .check(not_empty);
  declare(app, "REPO[@REV]", arguments->location, "The commit that a directory must be").check(not_empty);
  const auto deep = declare_flag(app, "--deep", arguments->deep,
                                 "Of a repository: rebuild every file of every commit as well, and check its digest");
  declare_flag(
      app, "--quick", arguments->quick,
      "Of a repository: check names, documents and sizes, and that a base on the Hub is there; no object is read")
      .excludes(deep);
  add_stage_option(app, context);
  declare_run(app, context, [arguments, &context] { return run_verify(*arguments, context); });
}

}  // namespace wdelta::cmd
