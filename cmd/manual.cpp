// SPDX-License-Identifier: Apache-2.0
#include "manual.hpp"

#include "base/error.hpp"
#include "model.hpp"
#include "user/exit_codes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace wdelta::cmd {

namespace {

constexpr std::size_t k_columns = 78;

/// Text as mdoc: a sentence begins a line, options and the names of values get their macros.
class Roff {
 public:
  void text(const std::string& text, const std::vector<std::string>& value_names = {});
  void macro(const std::string& line) {
    end_line();
    out_ += "." + line + "\n";
  }
  void end_line() {
    if (!line_.empty()) out_ += (line_[0] == '.' || line_[0] == '\'' ? "\\&" : "") + line_ + "\n";
    line_.clear();
  }
  std::string take() {
    end_line();
    return std::move(out_);
  }

 private:
  void word(const std::string& word) {
    if (line_.size() + 1 + word.size() > k_columns) end_line();
    line_ += (line_.empty() ? "" : " ") + word;
  }

  std::string out_;
  std::string line_;
};

bool is_option(const std::string& word) {
  const std::size_t name = word.find_first_not_of('-');
  return (name == 1 || name == 2) && std::isalpha(static_cast<unsigned char>(word[name])) != 0;
}

std::string escaped(const std::string& word) {
  std::string result;
  for (const char c : word) result += c == '\\' ? "\\e" : std::string(1, c);
  return result;
}

void Roff::text(const std::string& text, const std::vector<std::string>& value_names) {
  std::istringstream words(text);
  for (std::string each; words >> each;) {
    const std::size_t end = each.find_last_not_of(".,;:") + 1;
    const std::string core = each.substr(0, end);
    const std::string behind = end < each.size() ? " " + each.substr(end) : "";
    if (is_option(core)) {
      macro("Fl " + core.substr(1) + behind);
    } else if (std::ranges::count(value_names, core) > 0) {
      macro("Ar " + core + behind);
    } else {
      word(escaped(each));
    }
    if (each.back() == '.') end_line();
  }
}

// "K=V" is two values and what is between them.
std::vector<std::string> parts_of(const std::string& value_name) {
  std::vector<std::string> parts;
  for (const char c : value_name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (parts.empty() || !letter || std::isalnum(static_cast<unsigned char>(parts.back().back())) == 0) {
      parts.emplace_back();
    }
    parts.back() += c;
  }
  return parts;
}

std::string heading_of(const CLI::Option& option) {
  std::string value;
  for (const std::string& part : parts_of(value_name_of(option))) {
    const bool name = std::isalnum(static_cast<unsigned char>(part[0])) != 0;
    value += (value.empty() ? " " : " Ns ") + (name ? "Ar " + part : part);
  }
  std::string heading;
  for (const std::string& name : names_of(option)) {
    heading += (heading.empty() ? "Fl " : " , Fl ") + name.substr(1) + value;
  }
  return heading;
}

void add_choices(Roff& roff, const CLI::Option& option) {
  const auto choices = choices_of(option);
  if (choices.empty()) return;
  roff.macro("Ar " + value_name_of(option));
  roff.text("is");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0 && i + 1 == choices.size()) roff.text("or");
    roff.macro("Cm " + choices[i] + (i + 1 == choices.size() ? " ." : i + 2 == choices.size() ? "" : " ,"));
  }
}

void add_options(Roff& roff, const CLI::App& app, const CLI::App* without) {
  bool open = false;
  for (const CLI::Option* option : options_of(app)) {
    const std::vector<std::string> names = names_of(*option);
    if (without != nullptr && without->get_option_no_throw(names.back()) != nullptr) continue;
    if (!open) roff.macro("Bl -tag -width Ds");
    open = true;
    roff.macro("It " + heading_of(*option));
    roff.text(option->get_description() + ".", parts_of(value_name_of(*option)));
    add_choices(roff, *option);
    if (option->get_required()) roff.text("Must be given.");
  }
  if (open) roff.macro("El");
}

void add_commands(Roff& roff, const CLI::App& app) {
  roff.macro("Bl -tag -width \"wdelta-verify(1)\"");
  for (const CLI::App* command : commands_of(app)) {
    // help is described where this list stands.
    const bool has_page = command->get_name() != "help";
    roff.macro(has_page ? fmt::format("It Xr wdelta-{} 1", command->get_name()) : "It Cm " + command->get_name());
    roff.text(command->get_description());
  }
  roff.macro("El");
}

void add_exit_codes(Roff& roff) {
  roff.macro("Bl -tag -width \"130\"");
  for (const ExitCode& row : exit_codes()) {
    roff.macro(fmt::format("It {}", row.code));
    roff.text(row.meaning);
  }
  roff.macro("El");
}

}  // namespace

int print_manual(const CLI::App& app, const std::vector<std::string>& words) {
  Roff roff;
  if (words.size() == 1 && words[0] == "options") {
    add_options(roff, app, nullptr);
  } else if (words.size() == 2 && words[0] == "options" && command_named(app, words[1]) != nullptr) {
    add_options(roff, *command_named(app, words[1]), &app);
  } else if (words.size() == 1 && words[0] == "commands") {
    add_commands(roff, app);
  } else if (words.size() == 1 && words[0] == "exit-codes") {
    add_exit_codes(roff);
  } else {
    return exit_code_of(Fault::usage);
  }
  fmt::print("{}", roff.take());
  return 0;
}

}  // namespace wdelta::cmd
