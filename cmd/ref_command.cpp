// SPDX-License-Identifier: Apache-2.0
#include "ref_command.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "format.hpp"
#include "repo/gc_plan.hpp"
#include "repo/version_finder.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

struct RefArguments {
  std::string repository;
  std::string name;
  std::string revision;
  bool force = false;
  bool is_to_go = false;
};

const char* word_for(RefKind kind) { return kind == RefKind::branch ? "branch" : "tag"; }

int list(const Repository& repository, RefKind kind, Context& context) {
  Json json = Json::object();
  for (const auto& [name, ref] : repository.refs().list(kind)) {
    if (context.json) {
      json[name] = ref.commit->hex();
    } else {
      fmt::print("{}  {}\n", context.shown(*ref.commit), printable(name));
    }
  }
  if (context.json) context.print(json);
  return 0;
}

// What gc has taken, a name does not bring back: nobody could pull it, nor push behind it.
void require_recipes(const Repository& repository, const Commit& commit) {
  const RecipeGraph graph = repository.recipes(commit);
  if (const ManifestFile* file = find_lacking(commit, graph))
    throw no_recipe(file->identity.path, file->identity.digest, graph);
}

// What became of a name; `now` is nothing where it was deleted.
void print(RefKind kind, const std::string& name, const std::optional<Digest>& before, const std::optional<Digest>& now,
           Context& context) {
  const auto json_of = [](const std::optional<Digest>& commit) { return commit ? Json(commit->hex()) : Json(nullptr); };
  if (context.json) {
    context.print({{word_for(kind), name}, {"commit", json_of(now)}, {"before", json_of(before)}});
  } else if (!context.quiet) {
    const bool has_moved = before && before != now;
    fmt::print("{}  {}{}\n", now ? context.shown(*now) : "deleted", name,
               has_moved ? fmt::format(" (was {})", before->hex()) : "");
  }
}

int remove(const Repository& repository, RefKind kind, const std::string& name, Context& context) {
  Refs refs = repository.refs();
  const RefState before = refs.read_to_move(kind, name, context.execution());
  if (!before.commit) {
    throw Error(Fault::not_found, name, fmt::format("is no {} of {}", word_for(kind), repository.name()),
                fmt::format("wdelta {} REPO lists them", word_for(kind)));
  }
  refs.remove(kind, name, before, context.execution());
  print(kind, name, before.commit, std::nullopt, context);
  return 0;
}

int run(const RefArguments& arguments, RefKind kind, Context& context) {
  const Repository repository = open_repository(arguments.repository, context);
  const std::string& name = arguments.name;
  if (name.empty()) return list(repository, kind, context);
  if (const char* reason = why_not_a_ref_name(name))
    throw Error(Fault::usage, name, fmt::format("{} name {}", word_for(kind), reason));
  if (arguments.is_to_go) return remove(repository, kind, name, context);
  const Commit commit = repository.commit_at(arguments.revision);
  require_recipes(repository, commit);
  Refs refs = repository.refs();
  const RefState before = refs.read_to_move(kind, name, context.execution());
  if (before.commit && before.commit != commit.id && !arguments.force) {
    throw Error(Fault::conflict, name, fmt::format("names commit {} already", before.commit->hex().substr(0, 12)),
                "--force moves it");
  }
  const bool was_planned = spare_from_plan(repository, commit.id);
  if (before.commit == commit.id) {
    refs.confirm(kind, name, before, context.execution());
  } else {
    refs.move(kind, name, before, commit.id, context.execution());
  }
  require_recipes(repository, commit);  // gc may have been at work
  if (was_planned) require_spared(repository, commit.id);
  print(kind, name, before.commit, commit.id, context);
  return 0;
}

}  // namespace

void add_ref_command(CLI::App& app, Context& context, RefKind kind) {
  const auto arguments = std::make_shared<RefArguments>();
  const std::string word = word_for(kind);
  declare(app, "REPO", arguments->repository, "The repository").required().check(not_empty);
  const Declared name =
      declare(app, "NAME", arguments->name,
              fmt::format("The {}; without it, {} are listed", word, kind == RefKind::tag ? "tags" : "branches"))
          .check(not_empty);
  const Declared revision =
      declare(app, "REV", arguments->revision, "The commit (default: the tip of main)").check(not_empty);
  const Declared force =
      declare_flag(app, "-f,--force", arguments->force, fmt::format("Move a {} that names another commit", word));
  declare_flag(app, "-d,--delete", arguments->is_to_go, fmt::format("Delete the {}; its commits stay", word))
      .needs(name)
      .excludes(revision)
      .excludes(force);
  declare_run(app, context, [arguments, kind, &context] { return run(*arguments, kind, context); });
}

}  // namespace wdelta::cmd
