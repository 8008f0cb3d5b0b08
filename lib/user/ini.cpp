// SPDX-License-Identifier: Apache-2.0
#include "user/ini.hpp"

#include "base/ascii.hpp"

namespace wdelta {

namespace {

// "[profile  me]" is "profile me", and so is "[profile 'me']".
std::string section_name(std::string_view text) {
  std::string name;
  char quote = '\0';
  for (const char c : trimmed(text)) {
    const bool is_blank = (c == ' ' || c == '\t') && quote == '\0';
    if (is_blank && name.ends_with(' ')) continue;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      name += is_blank ? ' ' : c;
    }
  }
  return name;
}

}  // namespace

IniFile parse_ini(std::string_view text) {
  IniFile file;
  IniSection* section = nullptr;
  std::string outer;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') continue;
    const bool is_indented = line.front() == ' ' || line.front() == '\t';
    if (content.front() == '[' && !is_indented) {
      const std::size_t close = content.find(']');
      section = close == std::string_view::npos ? nullptr : &file[section_name(content.substr(1, close - 1))];
      outer.clear();
      continue;
    }
    const bool is_inner = is_indented && !outer.empty();
    const std::size_t equals = content.find_first_of(is_inner ? "=" : "=:");
    if (section == nullptr || equals == std::string_view::npos) continue;
    const std::string name = ascii_lowered(trimmed(content.substr(0, equals)));
    const std::string value(trimmed(content.substr(equals + 1)));
    if (is_inner) {
      (*section)[outer + "." + name] = value;
      continue;
    }
    outer = value.empty() ? name : "";
    (*section)[name] = value;
  }
  return file;
}

}  // namespace wdelta
