// SPDX-License-Identifier: Apache-2.0
#include "push_base.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "format.hpp"
#include "say.hpp"

namespace wdelta::cmd {

Declared add_base_options(CLI::App& app, BaseArguments& arguments) {
  const Declared base = declare(app, "--base", arguments.base,
                                "Begin a new branch with a model of the Hub, hf://NS/MODEL[@REV]; for --repair, a "
                                "directory")
                            .value_name("BASE")
                            .check(not_empty);
  const Declared reference =
      declare_flag(app, "--reference", arguments.reference, "Only refer to the base on the Hub, instead of copying it")
          .needs(base);
  const Declared copies = declare(app, "--base-copy", arguments.copies,
                                  "Read files of the base in DIR, where they are the same; may be repeated")
                              .value_name("DIR")
                              .check(not_empty)
                              .repeated()
                              .needs(base);
  return declare_flag(app, "--repair", arguments.repair,
                      "Restore what REPO[@REV], then the only argument, has lost, out of the copy of it in BASE")
      .needs(base)
      .excludes(reference)
      .excludes(copies);
}

std::optional<HubBaseOptions> base_options(const BaseArguments& arguments, const PathFilter& filter) {
  if (arguments.base.empty()) return std::nullopt;
  if (!arguments.base.starts_with("hf://")) {
    throw Error(Fault::usage, arguments.base, "is no model of the Hub",
                "what lies here needs no --base: wdelta push it first, as the commit before");
  }
  HubBaseOptions options;
  options.model = ModelRevision::parse(arguments.base);
  options.kept = arguments.reference ? BaseKept::referred : BaseKept::copied;
  options.filter = filter;
  for (const std::string& copy : arguments.copies) options.local_copies.emplace_back(copy);
  return options;
}

Json to_json(const HubBaseReport& report) {
  return {{"model", report.at.model},
          {"revision", report.at.commit},
          {"commit", report.id.hex()},
          {"files", report.file_count},
          {"bytes", report.size_bytes},
          {"copied_bytes", report.copied_bytes},
          {"referred_bytes", report.referred_bytes},
          {"fetched_bytes", report.fetched_bytes}};
}

void print_report(const HubBaseReport& report) {
  say("begins with {}: {} files, {}", report.at.name(), report.file_count, size_text(report.size_bytes));
  if (report.copied_bytes > 0) say("; {} copied by the Hub", size_text(report.copied_bytes));
  if (report.referred_bytes > 0) say("; {} stay there", size_text(report.referred_bytes));
  if (report.fetched_bytes > 0) say("; {} read from there", size_text(report.fetched_bytes));
  say("\n");
}

}  // namespace wdelta::cmd
