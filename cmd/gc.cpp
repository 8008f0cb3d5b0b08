// SPDX-License-Identifier: Apache-2.0
#include "repo/gc.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "format.hpp"

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

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

// 187,300 s → "2d 5h": the larger two units, rounded up.
std::string time_text(std::int64_t seconds) {
  const std::int64_t unit = seconds >= 86400 ? 3600 : seconds >= 3600 ? 60 : 1;
  seconds = (seconds + unit - 1) / unit * unit;
  std::string text;
  for (const auto& [size, name] : {std::pair<std::int64_t, char>{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}}) {
    if (seconds >= size) text += fmt::format("{}{}{}", text.empty() ? "" : " ", seconds / size, name);
    seconds %= size;
  }
  return text;
}

std::string when_more_can_go(const GcReport& report, const std::string& grace) {
  const auto more = [](std::size_t count, const char* what, std::uint64_t bytes, const std::string& when) {
    return fmt::format("{} {} ({}) can go {}", count, what, size_text(bytes), when);
  };
  if (!report.waiting) return more(report.planned, "more", report.planned_bytes, grace + " from now");
  const auto& [count, bytes, left] = *report.waiting;
  std::string text = more(count, "more", bytes, time_text(left.count()) + " from now");
  if (count < report.planned) {
    text += ", ";
    text += more(report.planned - count, "found since", report.planned_bytes - bytes,
                 grace + " after a run that removes these");
  }
  return text;
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
  fmt::print("{} {} ({}); {}\n", report.removed, arguments.dry_run ? "would be removed" : "removed",
             size_text(report.removed_bytes), when_more_can_go(report, arguments.grace));
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
