// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "delta/apply_checkpoint.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct ApplyOptions {
  std::string base;
  std::vector<std::string> deltas;
  std::string output;
};

void refuse_delta_as_output(const ApplyOptions& options) {
  std::error_code ignored;
  for (const std::string& delta : options.deltas) {
    if (std::filesystem::equivalent(delta, options.output, ignored)) {
      throw Error(Fault::usage, options.output, "is one of the deltas", "put the result somewhere else");
    }
  }
}

int run_apply(const ApplyOptions& options, Context& context) {
  refuse_delta_as_output(options);
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
  app.add_option("BASE", options->base,
                 "What the first delta was made from: a file, a checkpoint directory, or REPO@REV")
      ->required()
      ->check(not_empty);
  app.add_option("DELTA", options->deltas, "Deltas, oldest first")->required()->check(not_empty);
  app.add_option("-o,--output", options->output,
                 "Where to put the result: a file for deltas of files, a directory for those of directories")
      ->required()
      ->check(not_empty)
      ->type_name("OUT");
  add_stage_option(app, context);
  app.callback([options, &context] { context.run = [options, &context] { return run_apply(*options, context); }; });
}

}  // namespace wdelta::cmd
