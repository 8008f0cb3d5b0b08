// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/json.hpp"
#include "context.hpp"
#include "model.hpp"
#include "usage.hpp"
#include "user/exit_codes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace wdelta::cmd {

namespace {

int print_exit_codes(Context& context) {
  if (context.json) {
    Json rows = Json::array();
    for (const ExitCode& row : exit_codes()) rows.push_back({{"status", row.code}, {"meaning", row.meaning}});
    context.print({{"exit_codes", rows}});
    return 0;
  }
  for (const ExitCode& row : exit_codes()) fmt::print("{:>3}  {}\n", row.code, row.meaning);
  return 0;
}

Json to_json(const CLI::App& app) {
  Json arguments = Json::array();
  for (const CLI::Option* argument : arguments_of(app)) {
    arguments.push_back({{"name", value_name_of(*argument)},
                         {"required", argument->get_required()},
                         {"summary", argument->get_description()}});
  }
  Json options = Json::array();
  for (const CLI::Option* option : options_of(app)) {
    const std::string value = value_name_of(*option);
    options.push_back({{"names", names_of(*option)},
                       {"value", value.empty() ? Json(nullptr) : Json(value)},
                       {"choices", choices_of(*option)},
                       {"required", option->get_required()},
                       {"summary", option->get_description()}});
  }
  Json commands = Json::array();
  for (const CLI::App* command : commands_of(app)) {
    commands.push_back({{"name", command->get_name()}, {"summary", command->get_description()}});
  }
  return {{"name", app.get_name()},
          {"summary", app.get_description()},
          {"arguments", arguments},
          {"options", options},
          {"commands", commands}};
}

// The exit status of `man PAGE`; something other than 0 when there is no man or no such page.
int open_manual(std::string page) {
  char man[] = "man";
  char* arguments[] = {man, page.data(), nullptr};
  pid_t child = 0;
  int status = 1;
  // man's own complaint about a missing page would only confuse: the short help is printed instead.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const bool spawned = posix_spawnp(&child, man, &actions, nullptr, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!spawned || waitpid(child, &status, 0) < 0) return 1;
  return status;
}

int run_help(const std::string& topic, CLI::App& top, Context& context) {
  if (topic == "exit-codes") return print_exit_codes(context);
  CLI::App* subject = &top;
  if (!topic.empty()) {
    const auto subcommands = top.get_subcommands([&](const CLI::App* each) { return each->get_name() == topic; });
    if (subcommands.empty()) throw no_such_command(top, topic);
    subject = subcommands.front();
  }
  if (context.json) {
    context.print(to_json(*subject));
    return 0;
  }
  if (open_manual(topic.empty() ? "wdelta" : "wdelta-" + topic) != 0)
    fmt::print("{}", topic.empty() ? top.help() : subject->help("wdelta"));
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Context& context) {
  const auto topic = std::make_shared<std::string>();
  declare(app, "COMMAND", *topic, "The command, or exit-codes");
  declare_run(app, context, [topic, &app, &context] { return run_help(*topic, *app.get_parent(), context); });
}

}  // namespace wdelta::cmd
