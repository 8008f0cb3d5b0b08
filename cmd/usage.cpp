// SPDX-License-Identifier: Apache-2.0
#include "usage.hpp"

#include "model.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

// How many letters were left out, put in, changed or swapped with their neighbour (optimal string alignment).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string hint_for(const std::string& word, const std::vector<std::string>& names, const std::string& otherwise) {
  const std::string near = nearest(word, names);
  return near.empty() ? otherwise : fmt::format("did you mean {}?", near);
}

Error no_such_option(const CLI::App& command, const std::string& word, const std::string& help) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : names_of(*option)) names.push_back(name);
  }
  const std::string name = word.substr(0, word.find('='));
  if (std::ranges::find(names, name) != names.end())
    return {Fault::usage, name, "stands in front of its command",
            fmt::format("wdelta {} {}", command.get_name(), name)};
  return {Fault::usage, name, "is no option", hint_for(name, names, help + " lists the options")};
}

// Other commands take a revision apart.
std::string hint_for_extra(const CLI::App& command, const std::vector<std::string>& extra, const std::string& help) {
  const CLI::Option* repository = command.get_option_no_throw("REPO[@REV]");
  const bool may_be_revision = extra.size() == 1 && repository != nullptr && repository->count() == 1;
  return may_be_revision ? fmt::format("a revision is written {}@{}", repository->results().front(), extra.front())
                         : help;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  // Beyond this no command and no option is that long, and the table would only cost memory.
  if (word.size() > 64) return "";
  std::string best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& name : names) {
    const bool begins = word.size() > 3 && name.starts_with(word);
    const std::size_t found = begins ? 0 : distance(word, name);
    // A name of two letters is near to everything.
    if (found < best_distance && found < name.size() / 2) {
      best_distance = found;
      best = name;
    }
  }
  return best;
}

Error no_such_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return {Fault::usage, word.empty() ? "''" : word, "is no command",
          hint_for(word, names, "wdelta --help lists the commands")};
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string help = chosen.empty() ? "wdelta --help" : fmt::format("wdelta {} --help", command.get_name());
  // CLI11 complains of a missing argument before it looks at words that nothing takes; these come first here.
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with('-'); });
  if (option != unknown.end() && *option != "--") return no_such_option(command, *option, help);
  if (!unknown.empty() && chosen.empty()) return no_such_command(app, unknown.front());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty())
    return {Fault::usage, unknown.front(), "is one argument too many", hint_for_extra(command, unknown, help)};
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string what = error.what();
    return {Fault::usage, what.substr(0, what.find(':')), "has no value", help};
  }
  return {Fault::usage, "", error.what(), help};
}

}  // namespace wdelta::cmd
