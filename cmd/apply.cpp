// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "delta/apply_checkpoint.hpp"
#include "output_path.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct ApplyOptions {
  std::string base;
  std::vector<std::string> deltas;
  std::string output;
};

// A base may be replaced by its result, but if that is a directory, not be mixed with it.
void refuse_input_as_output(const ApplyOptions& options, const Context& context) {
  constexpr const char* k_hint = "put the result somewhere else";
  for (const std::string& delta : options.deltas) {
    if (is_or_lies_in(options.output, delta)) {
      throw Error(Fault::usage, options.output, "is one of the deltas, or lies in it", k_hint);
    }
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(options.base, ignored) && is_or_lies_in(options.output, options.base)) {
    throw Error(Fault::usage, options.output, "is the base, or lies in it", k_hint);
  }
  const auto repository = repository_directory_of(options.base, context);
  if (repository && is_or_lies_in(options.output, *repository))
    throw Error(Fault::usage, options.output, "lies in a repository", k_hint);
}

int run_apply(const ApplyOptions& options, Context& context) {
  require_file_name(options.output);
  refuse_input_as_output(options, context);
  const Checkpoint base = open_checkpoint(options.base, context);
  const std::vector<std::filesystem::path> deltas(options.deltas.begin(), options.deltas.end());
  apply_checkpoint(base, deltas, options.output, context.engine(), context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print({{"output", options.output}, {"deltas", options.deltas.size()}});
  } else if (!context.quiet) {
    fmt::print("rebuilt {} from {} {}, every digest as it should be\n", options.output, options.deltas.size(),
               options.deltas.size() == 1 ? "delta" : "deltas");
  }
  return 0;
}

}  // namespace

void add_apply(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ApplyOptions>();
  declare(app, "BASE", options->base, "What the first delta was made from: a file, a checkpoint directory, or REPO@REV")
      .required()
      .check(not_empty);
  declare(app, "DELTA", options->deltas, "Deltas, oldest first").required().check(not_empty);
  declare(app, "-o,--output", options->output,
          "Where to put the result: a file for deltas of files, a directory for those of directories")
      .required()
      .check(not_empty)
      .value_name("OUT");
  add_stage_option(app, context);
  declare_run(app, context, [options, &context] { return run_apply(*options, context); });
}

}  // namespace wdelta::cmd
