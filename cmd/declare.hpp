// SPDX-License-Identifier: Apache-2.0
// How a command declares its options and arguments. CLI11 reads them, and takes seconds to compile: only the files that
// work on the command line itself see it (model.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace wdelta::cmd {

struct Context;

/// Checks of values; each returns what is wrong, or nothing.
using Check = std::string (*)(const std::string& text);
std::string whole_number(const std::string& text);
std::string not_empty(const std::string& text);

/// An option, flag or argument of a command. Each member says one thing more of it.
class Declared {
 public:
  explicit Declared(CLI::Option* option) : option_(option) {}

  Declared required() const;
  /// What the help calls its value.
  Declared value_name(const char* name) const;
  Declared check(Check of_value) const;
  Declared in_range(int least, int most) const;
  Declared one_of(const std::vector<std::string>& choices) const;
  /// It may be given again and again, each time with one value.
  Declared repeated() const;
  Declared needs(const Declared& other) const;
  Declared excludes(const Declared& other) const;

 private:
  CLI::Option* option_;
};

/// Names are "-o,--output" for an option, "REPO" for an argument. A value that is not given stays as it is; all must
/// live until the command line is read.
Declared declare(CLI::App& app, const char* names, std::string& value, const std::string& description);
Declared declare(CLI::App& app, const char* names, std::vector<std::string>& values, const std::string& description);
Declared declare(CLI::App& app, const char* names, unsigned& value, const std::string& description);
Declared declare(CLI::App& app, const char* names, std::uint64_t& value, const std::string& description);
Declared declare(CLI::App& app, const char* names, std::optional<std::uint64_t>& value, const std::string& description);

Declared declare_flag(CLI::App& app, const char* names, bool& is_given, const std::string& description);
Declared declare_flag(CLI::App& app, const char* names, int& times_given, const std::string& description);
Declared declare_flag(CLI::App& app, const char* names, std::function<void()> when_given,
                      const std::string& description);

/// What runs when the command line names the command of `app`; it returns the exit status.
void declare_run(CLI::App& app, Context& context, std::function<int()> run);

}  // namespace wdelta::cmd
