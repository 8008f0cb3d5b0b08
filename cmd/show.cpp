// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"
#include "base/printable.hpp"
#include "context.hpp"
#include "delta/file_identity_json.hpp"
#include "format.hpp"

#include <fmt/format.h>
#include <sstream>

namespace wdelta::cmd {

namespace {

// How a file would be fetched by someone who has nothing.
struct Way {
  std::string words;
  std::uint64_t bytes = 0;
  std::vector<ModelReference> references;  // what of it comes from models on the Hub
};

Way way_to(const ManifestFile& file, const RecipeGraph& recipes) {
  const Digest& digest = file.identity.digest;
  if (file.content) return {"in the manifest", 0, {}};
  if (!recipes.can_make(digest)) return {"no recipe any more", 0, {}};
  const std::uint64_t chain = recipes.chain_length(digest);
  const Recipe* recipe = recipes.best(digest);
  const char* const alone = recipe != nullptr && recipe->is_delta ? "compressed" : "whole";
  Way way{chain == 0 ? alone : "anchor", recipes.cost_together({digest}), recipes.references_for(digest)};
  constexpr std::size_t k_shown_digits = 12;
  if (!way.references.empty()) {
    const ModelCommit& at = way.references.front().at;
    way.words = fmt::format("hf://{}@{}", at.model, at.commit.substr(0, k_shown_digits));
  }
  if (chain > 0) way.words += fmt::format(" and {} delta{}", chain, chain == 1 ? "" : "s");
  return way;
}

Json to_json(const Commit& commit, const RecipeGraph& recipes) {
  const Manifest& manifest = commit.manifest;
  Json meta = Json::object();
  for (const auto& [key, value] : manifest.meta) meta[key] = value;
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    const Way way = way_to(file, recipes);
    Json json = wdelta::to_json(file.identity);
    json["executable"] = file.executable;
    json["fetch"] = way.words;
    json["fetch_bytes"] = way.bytes;
    json["references"] = Json::array();
    for (const ModelReference& reference : way.references) json["references"].push_back(reference.name());
    files.push_back(std::move(json));
  }
  return {{"commit", commit.id.hex()},
          {"parent", manifest.parent ? Json(manifest.parent->hex()) : Json(nullptr)},
          {"time", manifest.time},
          {"author", manifest.author},
          {"message", manifest.message},
          {"step", manifest.step ? Json(*manifest.step) : Json(nullptr)},
          {"meta", meta},
          {"size", manifest.size_bytes()},
          {"fetch_bytes", recipes.cost_together(manifest.stored_digests())},
          {"files", files}};
}

// Every line of a message, so that none can be taken for what is printed around it.
std::string indented(const std::string& message) {
  std::string text;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) text += fmt::format("    {}\n", printable(line));
  return text;
}

void print_commit(const Commit& commit, const RecipeGraph& recipes, const Context& context) {
  const Manifest& manifest = commit.manifest;
  fmt::print("commit  {}\n", commit.id.hex());
  if (manifest.parent) fmt::print("parent  {}\n", manifest.parent->hex());
  fmt::print("time    {}\nauthor  {}\n", printable(manifest.time), printable(manifest.author));
  if (manifest.step) fmt::print("step    {}\n", *manifest.step);
  for (const auto& [key, value] : manifest.meta) fmt::print("meta    {}\n", printable(key + "=" + value));
  if (!manifest.message.empty()) fmt::print("\n{}", indented(manifest.message));
  fmt::print("\n");
  using enum Table::Align;
  Table table({{"file", left}, {"size", right}, {"digest", left}, {"fetched as", left}, {"bytes", right}});
  for (const ManifestFile& file : manifest.files) {
    const Way way = way_to(file, recipes);
    const std::string digest = file.identity.digest.hex();
    table.add({file.identity.path, size_text(file.identity.size_bytes),
               context.verbose > 0 ? digest : digest.substr(0, 16), way.words, size_text(way.bytes)});
  }
  fmt::print("{}{} files, {}; {} to fetch from nothing\n", table.text(), manifest.files.size(),
             size_text(manifest.size_bytes()), size_text(recipes.cost_together(manifest.stored_digests())));
}

int run_show(const std::string& location, Context& context) {
  const OpenedCommit opened = open_commit(location, context);
  const RecipeGraph recipes = opened.repository->recipes(opened.commit);
  if (context.json) {
    context.print(to_json(opened.commit, recipes));
  } else {
    print_commit(opened.commit, recipes, context);
  }
  return 0;
}

}  // namespace

void add_show(CLI::App& app, Context& context) {
  const auto location = std::make_shared<std::string>();
  declare(app, "REPO[@REV]", *location, "The commit (default revision: the tip of main)").required().check(not_empty);
  declare_run(app, context, [location, &context] { return run_show(*location, context); });
}

}  // namespace wdelta::cmd
