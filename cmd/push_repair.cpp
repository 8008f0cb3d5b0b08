// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "delta/file_identity_json.hpp"
#include "format.hpp"
#include "push_base.hpp"
#include "repo/repair.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

Json to_json(const RepairReport& report) {
  Json restored = Json::array();
  for (const FileIdentity& file : report.restored) restored.push_back(wdelta::to_json(file));
  Json missing = Json::array();
  for (const MissingFile& each : report.missing) {
    Json json = wdelta::to_json(each.file);
    json["commit"] = each.commit.hex();
    missing.push_back(std::move(json));
  }
  return {{"restored", restored},
          {"stored_bytes", report.stored_bytes},
          {"repaired_commits", report.repaired_commits},
          {"missing", missing}};
}

void print_report(const RepairReport& report, const Context& context) {
  for (const MissingFile& each : report.missing) {
    fmt::print("{}: {} is still missing: {}\n", each.commit.hex(), printable(each.file.path), each.file.digest.hex());
  }
  if (context.quiet) return;
  if (report.restored.empty() && report.missing.empty()) fmt::print("nothing is missing\n");
  for (const FileIdentity& file : report.restored) {
    fmt::print("restored {} ({}, {})\n", printable(file.path), size_text(file.size_bytes),
               file.digest.hex().substr(0, 16));
  }
  if (report.repaired_commits > 0) fmt::print("{} commits can be pulled again\n", report.repaired_commits);
}

}  // namespace

int run_repair(const BaseArguments& arguments, const std::string& location, Context& context) {
  if (has_scheme(arguments.base)) {
    throw Error(Fault::usage, arguments.base, "is no directory", "download it, and name the directory that it is in");
  }
  const Location named = parse_location(location, context.default_repository);
  Repository repository = open_repository(named.repository, context);
  std::optional<Digest> commit;
  if (!named.revision.empty()) commit = repository.resolve(named.revision);
  const Checkpoint copy = Checkpoint::open(arguments.base, Shards::any);
  const RepairReport report = repair(repository, commit, copy, context.execution());
  context.progress->wipe();
  if (context.json) {
    context.print(to_json(report));
  } else {
    print_report(report, context);
  }
  if (report.missing.empty()) return 0;
  std::fflush(stdout);
  throw Error(Fault::not_found, location,
              fmt::format("{} files of commits are still missing, {} among them", report.missing.size(),
                          report.missing.front().file.path),
              "wdelta show REPO@REV says the digest of each; a copy of it anywhere will do");
}

}  // namespace wdelta::cmd
