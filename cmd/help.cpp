// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "context.hpp"
#include "exit_codes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace wdelta::cmd {

namespace {

int print_exit_codes() {
  for (const ExitCode& row : exit_codes()) fmt::print("{:>3}  {}\n", row.code, row.meaning);
  return 0;
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

int run_help(const std::string& topic, CLI::App& top) {
  if (topic == "exit-codes") return print_exit_codes();
  CLI::App* subject = &top;
  if (!topic.empty()) {
    const auto subcommands = top.get_subcommands([&](const CLI::App* each) { return each->get_name() == topic; });
    if (subcommands.empty()) throw Error(Fault::usage, topic, "is no command", "wdelta --help lists them");
    subject = subcommands.front();
  }
  if (open_manual(topic.empty() ? "wdelta" : "wdelta-" + topic) != 0)
    fmt::print("{}", topic.empty() ? top.help() : subject->help("wdelta"));
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Context& context) {
  const auto topic = std::make_shared<std::string>();
  app.add_option("COMMAND", *topic, "The command, or exit-codes");
  app.callback(
      [topic, &app, &context] { context.run = [topic, &app] { return run_help(*topic, *app.get_parent()); }; });
}

}  // namespace wdelta::cmd
