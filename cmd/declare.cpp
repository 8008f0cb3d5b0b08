// SPDX-License-Identifier: Apache-2.0
#include "declare.hpp"

#include "context.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <fmt/format.h>
#include <utility>

namespace wdelta::cmd {

std::string whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? "" : fmt::format("{:?} is no whole number below 2^64", text);
}

std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

Declared Declared::required() const { return Declared(option_->required()); }

Declared Declared::value_name(const char* name) const { return Declared(option_->type_name(name)); }

Declared Declared::check(Check of_value) const { return Declared(option_->check(of_value)); }

Declared Declared::in_range(int least, int most) const { return Declared(option_->check(CLI::Range(least, most))); }

Declared Declared::one_of(const std::vector<std::string>& choices) const {
  return Declared(option_->check(CLI::IsMember(choices)));
}

Declared Declared::repeated() const {
  // Else it would take all words behind it, those of arguments too.
  return Declared(option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false));
}

Declared Declared::needs(const Declared& other) const { return Declared(option_->needs(other.option_)); }

Declared Declared::excludes(const Declared& other) const { return Declared(option_->excludes(other.option_)); }

Declared declare(CLI::App& app, const char* names, std::string& value, const std::string& description) {
  return Declared(app.add_option(names, value, description));
}

Declared declare(CLI::App& app, const char* names, std::vector<std::string>& values, const std::string& description) {
  return Declared(app.add_option(names, values, description));
}

Declared declare(CLI::App& app, const char* names, unsigned& value, const std::string& description) {
  return Declared(app.add_option(names, value, description));
}

Declared declare(CLI::App& app, const char* names, std::uint64_t& value, const std::string& description) {
  return Declared(app.add_option(names, value, description));
}

Declared declare(CLI::App& app, const char* names, std::optional<std::uint64_t>& value,
                 const std::string& description) {
  return Declared(app.add_option(names, value, description));
}

Declared declare_flag(CLI::App& app, const char* names, bool& is_given, const std::string& description) {
  return Declared(app.add_flag(names, is_given, description));
}

Declared declare_flag(CLI::App& app, const char* names, int& times_given, const std::string& description) {
  return Declared(app.add_flag(names, times_given, description));
}

Declared declare_flag(CLI::App& app, const char* names, std::function<void()> when_given,
                      const std::string& description) {
  return Declared(app.add_flag_callback(names, std::move(when_given), description));
}

void declare_run(CLI::App& app, Context& context, std::function<int()> run) {
  app.callback([run = std::move(run), &context] { context.run = run; });
}

}  // namespace wdelta::cmd
