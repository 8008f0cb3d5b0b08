// SPDX-License-Identifier: Apache-2.0
#include "repo/stats.hpp"

#include "base/json.hpp"
#include "context.hpp"
#include "format.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

Json to_json(const RepositoryStats& stats) {
  return {{"commits", stats.commit_count},
          {"given_up", stats.given_up_count},
          {"branches", stats.branch_count},
          {"tags", stats.tag_count},
          {"files", stats.file_count},
          {"checkpoint_bytes", stats.checkpoint_bytes},
          {"distinct_files", stats.distinct_file_count},
          {"distinct_bytes", stats.distinct_bytes},
          {"objects", stats.object_count},
          {"object_bytes", stats.object_bytes},
          {"whole_bytes", stats.whole_bytes},
          {"delta_bytes", stats.delta_bytes},
          {"referred_bytes", stats.referred_bytes},
          {"stored_bytes", stats.stored_bytes}};
}

void print_line(const char* what, const std::string& how_much, const std::string& more = {}) {
  fmt::print("{:<14}{:>10}{}{}\n", what, how_much, more.empty() ? "" : "   ", more);
}

void print(const RepositoryStats& stats) {
  const auto files = [](std::size_t count) { return fmt::format("files: {}", count_text(count)); };
  print_line("commits", count_text(stats.commit_count),
             stats.given_up_count == 0 ? "" : fmt::format("given up: {}", count_text(stats.given_up_count)));
  print_line("branches", count_text(stats.branch_count));
  print_line("tags", count_text(stats.tag_count));
  print_line("checkpoints", size_text(stats.checkpoint_bytes), files(stats.file_count));
  print_line("distinct", size_text(stats.distinct_bytes), files(stats.distinct_file_count));
  print_line("stored", size_text(stats.stored_bytes),
             fmt::format("{} of the checkpoints", share_text(stats.stored_bytes, stats.checkpoint_bytes)));
  print_line("  objects", size_text(stats.object_bytes), fmt::format("objects: {}", count_text(stats.object_count)));
  print_line("    whole", size_text(stats.whole_bytes));
  print_line("    deltas", size_text(stats.delta_bytes));
  if (stats.referred_bytes > 0) print_line("referred to", size_text(stats.referred_bytes), "in models on the Hub");
}

int run_stats(const std::string& location, Context& context) {
  const RepositoryStats stats = read_stats(open_repository(location, context), context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print(to_json(stats));
  } else {
    print(stats);
  }
  return 0;
}

}  // namespace

void add_stats(CLI::App& app, Context& context) {
  const auto location = std::make_shared<std::string>();
  declare(app, "REPO", *location, "The repository").required().check(not_empty);
  declare_run(app, context, [location, &context] { return run_stats(*location, context); });
}

}  // namespace wdelta::cmd
