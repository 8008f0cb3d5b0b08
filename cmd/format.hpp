// SPDX-License-Identifier: Apache-2.0
// Words and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wdelta::cmd {

/// 1536 → "1.5 KiB".
std::string size_text(std::uint64_t bytes);
/// 0.0278 → "2.78 %"; three digits that matter. Neither nothing nor all where it is only nearly so.
std::string share_text(std::uint64_t part, std::uint64_t whole);
/// 22030848 → "22,030,848".
std::string count_text(std::uint64_t count);

/// Columns that line up, of cells made printable. The first row is the heading; numbers go to the right.
class Table {
 public:
  enum class Align { left, right };
  explicit Table(std::vector<std::pair<std::string, Align>> columns);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace wdelta::cmd
