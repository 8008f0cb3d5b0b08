// SPDX-License-Identifier: Apache-2.0
#include "repo/squash.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "format.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct SquashArguments {
  std::string repository;
  std::string range;
  bool anchor = false;
  bool compress_anchors = false;
  bool dry_run = false;
};

struct Range {
  std::optional<Digest> from;
  Digest to;
};

Range resolve_range(const Repository& repository, const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    throw Error(Fault::usage, text, "is no range of commits", "write A..B: the commits behind A, up to and with B");
  }
  const std::string from = text.substr(0, dots);
  Range range{std::nullopt, repository.resolve(text.substr(dots + 2))};
  if (!from.empty()) range.from = repository.resolve(from);
  return range;
}

Json ids(const std::vector<Digest>& commits) {
  Json json = Json::array();
  for (const Digest& id : commits) json.push_back(id.hex());
  return json;
}

int run_squash(const SquashArguments& arguments, Context& context) {
  Repository repository = open_repository(arguments.repository, context);
  const Range range = resolve_range(repository, arguments.range);
  const SquashInto anchor = arguments.compress_anchors ? SquashInto::compressed_anchor : SquashInto::anchor;
  const SquashReport report =
      squash(repository, range.from, range.to, arguments.anchor ? anchor : SquashInto::delta,
             arguments.dry_run ? SquashMode::dry_run : SquashMode::carry_out, context.engine(), context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print(
        {{"kept", ids(report.kept)}, {"squashed", ids(report.squashed)}, {"stored_bytes", report.stored_bytes}});
    return 0;
  }
  for (const Digest& id : report.squashed) {
    fmt::print("{} {}\n", arguments.dry_run ? "would squash" : "squashed", id.hex().substr(0, 12));
  }
  if (context.quiet) return 0;
  fmt::print("{} of {} commits {}", report.squashed.size(), report.squashed.size() + report.kept.size(),
             arguments.dry_run ? "would be squashed" : "squashed");
  if (!arguments.dry_run) fmt::print("; stored {}", size_text(report.stored_bytes));
  fmt::print("\n");
  return 0;
}

}  // namespace

void add_squash(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<SquashArguments>();
  declare(app, "REPO", arguments->repository, "The repository").required().check(not_empty);
  declare(app, "A..B", arguments->range, "The commits behind A, up to and with B").required().check(not_empty);
  const Declared anchor =
      declare_flag(app, "--anchor", arguments->anchor, "Store the files of B whole instead of a delta from A");
  declare_flag(app, "--compress-anchors", arguments->compress_anchors,
               "Store them compressed: smaller, but no plain files any more")
      .needs(anchor);
  declare_flag(app, "-n,--dry-run", arguments->dry_run, "Only say which commits would be squashed");
  declare_run(app, context, [arguments, &context] { return run_squash(*arguments, context); });
}

}  // namespace wdelta::cmd
