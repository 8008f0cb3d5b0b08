// SPDX-License-Identifier: Apache-2.0
#include "complete.hpp"

#include "format.hpp"
#include "model.hpp"
#include "revisions.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <unistd.h>

namespace wdelta::cmd {

namespace {

// What stands where the help says so.
enum class Kind { nothing, files, directories, checkpoint, location, repository, revision, range, branch, tag, topic };

struct Place {
  const char* name;
  Kind kind;
};

// By what the help calls a value. An argument that is not here is a file, the value of an option nothing one could
// list.
constexpr Place k_places[] = {
    {"OLD", Kind::checkpoint},
    {"NEW", Kind::checkpoint},
    {"BASE", Kind::checkpoint},
    {"CHECKPOINT", Kind::checkpoint},
    {"WHAT", Kind::checkpoint},
    {"REPO@REV", Kind::location},
    {"REPO[@REV]", Kind::location},
    {"REPO", Kind::repository},
    {"DIR", Kind::directories},
    {"REV", Kind::revision},
    {"A..B", Kind::range},
    {"BRANCH", Kind::branch},
    {"TAG", Kind::tag},
    {"T", Kind::tag},
    {"FILE", Kind::files},
    {"OUT", Kind::files},
    {"DELTA", Kind::files},
    {"PATH", Kind::files},
    {"COMMAND", Kind::topic},
};

Kind kind_of(const CLI::Option& option, const CLI::App& command) {
  const std::string name = value_name_of(option);
  // `wdelta tag REPO NAME` names a tag, `wdelta branch REPO NAME` a branch.
  if (name == "NAME" && option.get_positional()) return command.get_name() == "branch" ? Kind::branch : Kind::tag;
  const auto* place = std::ranges::find(k_places, name, [](const Place& each) { return std::string_view(each.name); });
  if (place != std::end(k_places)) return place->kind;
  return option.get_positional() ? Kind::files : Kind::nothing;
}

const CLI::Option* option_named(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : options_of(app)) {
    if (std::ranges::count(names_of(*option), name) > 0) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option* option) { return option != nullptr && !value_name_of(*option).empty(); }

// What the words before the last one leave open.
struct Line {
  const CLI::App* command;
  const CLI::Option* awaiting = nullptr;  // the option whose value the next word is
  bool options_over = false;              // behind "--"
  std::vector<std::string> arguments;

  explicit Line(const CLI::App& app) : command(&app) {}
  void read(const std::string& word);
  void read_cluster(const std::string& word);
  /// The argument that would come next, or null.
  const CLI::Option* next_argument() const;
  /// The repository that was named, as far as one was.
  std::string repository(const Context& context) const;
};

void Line::read(const std::string& word) {
  if (awaiting != nullptr) {
    awaiting = nullptr;
  } else if (options_over || word.size() < 2 || word[0] != '-') {
    const CLI::App* named = command->get_parent() == nullptr ? command_named(*command, word) : nullptr;
    if (named != nullptr) {
      command = named;
    } else {
      arguments.push_back(word);
    }
  } else if (word == "--") {
    options_over = true;
  } else if (word[1] == '-') {
    const CLI::Option* option = option_named(*command, word);
    if (takes_value(option)) awaiting = option;
  } else {
    read_cluster(word);
  }
}

// "-vj8" is -v and -j with the value 8; "-vj" leaves the value to the next word.
void Line::read_cluster(const std::string& word) {
  for (std::size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* option = option_named(*command, std::string("-") + word[i]);
    if (!takes_value(option)) continue;
    if (i + 1 == word.size()) awaiting = option;
    return;
  }
}

const CLI::Option* Line::next_argument() const {
  std::size_t left = arguments.size();
  for (const CLI::Option* argument : arguments_of(*command)) {
    const auto takes = static_cast<std::size_t>(argument->get_items_expected_max());
    if (left < takes) return argument;
    left -= takes;
  }
  return nullptr;
}

std::string Line::repository(const Context& context) const {
  const auto places = arguments_of(*command);
  for (std::size_t i = 0; i < places.size() && i < arguments.size(); ++i) {
    if (value_name_of(*places[i]) == "REPO") return arguments[i];
  }
  return context.default_repository;
}

std::vector<Candidate> ask_for(const char* what) { return {{"", what}}; }

std::vector<Candidate> with_prefix(const std::string& prefix, std::vector<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.text.insert(0, prefix);
  return candidates;
}

// REPO@REV, or what it begins with: a path.
std::vector<Candidate> locations(const std::string& word, const Context& context, const char* paths) {
  const std::size_t at = word.rfind('@');
  if (at == std::string::npos) return ask_for(paths);
  const std::string repository = at == 0 ? context.default_repository : word.substr(0, at);
  auto found = revision_candidates(repository, word.substr(at + 1), RevisionKinds::all);
  return found.empty() ? ask_for(paths) : with_prefix(word.substr(0, at + 1), std::move(found));
}

// A..B: the first end brings the dots along.
std::vector<Candidate> ranges(const std::string& word, const std::string& repository) {
  const std::size_t dots = word.find("..");
  if (dots != std::string::npos) {
    return with_prefix(word.substr(0, dots + 2),
                       revision_candidates(repository, word.substr(dots + 2), RevisionKinds::all));
  }
  auto found = revision_candidates(repository, word, RevisionKinds::all);
  for (Candidate& candidate : found) candidate.text += "..";
  return found;
}

std::vector<Candidate> command_candidates(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::App* command : commands_of(app)) found.push_back({command->get_name(), command->get_description()});
  return found;
}

std::vector<Candidate> topic_candidates(const CLI::App& app) {
  auto found = command_candidates(app);
  found.push_back({"exit-codes", "the table of exit statuses"});
  return found;
}

std::vector<Candidate> values(const CLI::Option& option, const std::string& word, const Line& line,
                              const Context& context) {
  if (const auto choices = choices_of(option); !choices.empty()) {
    std::vector<Candidate> found;
    for (const std::string& choice : choices) found.push_back({choice, ""});
    return found;
  }
  switch (kind_of(option, *line.command)) {
    case Kind::nothing:
      return {};
    case Kind::files:
      return ask_for("files");
    case Kind::directories:
    case Kind::repository:
      return ask_for("directories");
    case Kind::checkpoint:
      return locations(word, context, "files");
    case Kind::location:
      return locations(word, context, "directories");
    case Kind::revision:
      return revision_candidates(line.repository(context), word, RevisionKinds::all);
    case Kind::range:
      return ranges(word, line.repository(context));
    case Kind::branch:
      return revision_candidates(line.repository(context), word, RevisionKinds::branches);
    case Kind::tag:
      return revision_candidates(line.repository(context), word, RevisionKinds::tags);
    case Kind::topic:
      return topic_candidates(*line.command->get_parent());
  }
  return {};
}

std::vector<Candidate> option_candidates(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : names_of(*option)) found.push_back({name, option->get_description()});
  }
  return found;
}

std::vector<Candidate> candidates(const Line& line, const std::string& word, const Context& context) {
  if (line.awaiting != nullptr) return values(*line.awaiting, word, line, context);
  if (!line.options_over && word.starts_with('-')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return option_candidates(*line.command);
    const CLI::Option* option = option_named(*line.command, word.substr(0, equals));
    if (!takes_value(option)) return {};
    return with_prefix(word.substr(0, equals + 1), values(*option, word.substr(equals + 1), line, context));
  }
  if (line.command->get_parent() == nullptr) {
    return line.arguments.empty() ? command_candidates(*line.command) : std::vector<Candidate>();
  }
  const CLI::Option* argument = line.next_argument();
  return argument == nullptr ? std::vector<Candidate>() : values(*argument, word, line, context);
}

}  // namespace

int complete(const CLI::App& app, const std::vector<std::string>& words, const Context& context) {
  // Someone waits at a prompt: a store that does not answer in time has nothing to offer.
  std::signal(SIGALRM, [](int) { _exit(0); });
  alarm(2);
  std::span<const std::string> rest(words);
  if (!rest.empty() && rest.front() == "--") rest = rest.subspan(1);
  if (rest.empty()) return 0;
  Line line(app);
  for (const std::string& word : rest.first(rest.size() - 1)) line.read(word);
  for (const Candidate& candidate : candidates(line, rest.back(), context)) {
    fmt::print("{}\t{}\n", candidate.text, candidate.description);
  }
  return 0;
}

}  // namespace wdelta::cmd
