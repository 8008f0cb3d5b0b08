// SPDX-License-Identifier: Apache-2.0
#include "repo/gc.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "format.hpp"

#include <charconv>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct GcArguments {
  std::string repository;
  std::string grace = "7d";
  bool dry_run = false;
};

// 7d, 12h, 30m, 90s or 0.
std::chrono::seconds parse_duration(const std::string& text) {
  std::uint32_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, count);
  const std::string_view rest(unit, static_cast<std::size_t>(end - unit));
  const bool is_nothing = rest.empty() && count == 0;
  const std::int64_t seconds = rest == "d"                 ? 86400
                               : rest == "h"               ? 3600
                               : rest == "m"               ? 60
                               : rest == "s" || is_nothing ? 1
                                                           : 0;
  if (error != std::errc() || seconds == 0)
    throw Error(Fault::usage, text, "is no time", "write 7d, 12h, 30m, 90s or 0");
  return std::chrono::seconds(count * seconds);
}

int run_gc(const GcArguments& arguments, Context& context) {
  const std::chrono::seconds grace = parse_duration(arguments.grace);
  Repository repository = open_repository(arguments.repository, context);
  const GcReport report =
      collect_garbage(repository, grace, arguments.dry_run ? GcMode::dry_run : GcMode::carry_out, context.execution());
  context.progress->wipe();
  if (context.json) {
    Json given_up = Json::array();
    for (const Digest& id : report.given_up) given_up.push_back(id.hex());
    context.print({{"given_up", given_up},
                   {"removed", report.removed},
                   {"removed_bytes", report.removed_bytes},
                   {"planned", report.planned},
                   {"planned_bytes", report.planned_bytes}});
    return 0;
  }
  if (context.quiet) return 0;
  if (!report.given_up.empty()) {
    const bool is_one = report.given_up.size() == 1;
    fmt::print("{} {} that squash gave up {} no longer be pulled:\n", report.given_up.size(),
               is_one ? "commit" : "commits", arguments.dry_run ? "could" : "can");
    for (const Digest& id : report.given_up) {
      fmt::print("  {}\n", context.verbose > 0 ? id.hex() : id.hex().substr(0, 12));
    }
  }
  fmt::print("{} {} ({}); {} more ({}) can go {} from now\n", report.removed,
             arguments.dry_run ? "would be removed" : "removed", size_text(report.removed_bytes), report.planned,
             size_text(report.planned_bytes), arguments.grace);
  return 0;
}

}  // namespace

void add_gc(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<GcArguments>();
  declare(app, "REPO", arguments->repository, "The repository").required().check(not_empty);
  declare(app, "--grace", arguments->grace,
          "How long nothing must have needed a thing: 7d, 12h, 30m, 90s, 0 (default: 7d)")
      .check(not_empty)
      .value_name("TIME");
  declare_flag(app, "-n,--dry-run", arguments->dry_run, "Only say what would be removed");
  declare_run(app, context, [arguments, &context] { return run_gc(*arguments, context); });
}

}  // namespace wdelta::cmd
