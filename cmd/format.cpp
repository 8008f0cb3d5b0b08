// SPDX-License-Identifier: Apache-2.0
#include "format.hpp"

#include "base/printable.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta::cmd {

std::string size_text(std::uint64_t bytes) {
  constexpr const char* k_units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1000 && unit + 1 < std::size(k_units); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, k_units[unit]);
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "0 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.001) return "<0.001 %";
  if (percent >= 99.95 && part < whole) return ">99.9 %";
  return fmt::format("{:.{}f} %", percent, percent < 0.9995 ? 3 : percent < 99.95 ? 2 : 0);
}

std::string count_text(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

namespace {
// Columns on the screen, not bytes: continuation bytes of UTF-8 take none.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}
}  // namespace

Table::Table(std::vector<std::pair<std::string, Align>> columns) {
  std::vector<std::string> heading;
  for (auto& [name, align] : columns) {
    heading.push_back(std::move(name));
    align_.push_back(align);
  }
  rows_.push_back(std::move(heading));
}

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(align_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (align_[i] == Align::right ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace wdelta::cmd
