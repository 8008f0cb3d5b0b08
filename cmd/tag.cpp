// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct TagArguments {
  std::string repository;
  std::string name;
  std::string revision;
  bool force = false;
};

int list_tags(const Repository& repository, const Context& context) {
  Json json = Json::object();
  for (const auto& [name, ref] : list_refs(repository.store(), RefKind::tag)) {
    if (context.json) {
      json[name] = ref.commit->hex();
    } else {
      fmt::print("{}  {}\n", ref.commit->hex().substr(0, 12), name);
    }
  }
  if (context.json) fmt::print("{}\n", json.dump());
  return 0;
}

int run_tag(const TagArguments& arguments, Context& context) {
  const Repository repository = Repository::open(arguments.repository);
  if (arguments.name.empty()) return list_tags(repository, context);
  if (const char* reason = why_not_a_ref_name(arguments.name))
    throw Error(Fault::usage, arguments.name, fmt::format("tag name {}", reason));
  const Commit commit = repository.commit(repository.resolve(arguments.revision));
  const RefState before = read_ref(repository.store(), RefKind::tag, arguments.name);
  if (before.commit && before.commit != commit.id && !arguments.force) {
    throw Error(Fault::conflict, arguments.name,
                fmt::format("names commit {} already", before.commit->hex().substr(0, 12)), "--force moves it");
  }
  if (before.commit != commit.id) move_ref(repository.store(), RefKind::tag, arguments.name, before, commit.id);
  if (context.json) {
    fmt::print("{}\n", Json({{"tag", arguments.name}, {"commit", commit.id.hex()}}).dump());
  } else if (!context.quiet) {
    fmt::print("{}  {}\n", commit.id.hex().substr(0, 12), arguments.name);
  }
  return 0;
}

}  // namespace

void add_tag(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<TagArguments>();
  app.add_option("REPO", arguments->repository, "The repository")->required()->check(not_empty);
  app.add_option("NAME", arguments->name, "The tag; without it, tags are listed");
  app.add_option("REV", arguments->revision, "The commit (default: the tip of main)");
  app.add_flag("-f,--force", arguments->force, "Move a tag that names another commit");
  app.callback([arguments, &context] { context.run = [arguments, &context] { return run_tag(*arguments, context); }; });
}

}  // namespace wdelta::cmd
