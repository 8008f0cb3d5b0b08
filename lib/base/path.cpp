// SPDX-License-Identifier: Apache-2.0
#include "base/path.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr std::string_view k_own_name = ".wdelta";
constexpr std::string_view k_git_name = ".git";

// Only ASCII: what else a file system takes for the same depends on the file system and its version of Unicode.
char folded(char character) {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a') : character;
}

// Orders a path right before all that lies in it.
int rank(char character) { return character == '/' ? -1 : static_cast<unsigned char>(folded(character)); }

bool comes_before(std::string_view a, std::string_view b) {
  return std::ranges::lexicographical_compare(a, b, {}, rank, rank);
}

// Of two paths, one right behind the other in that order.
bool collide(std::string_view a, std::string_view b) {
  std::size_t same = 0;
  std::size_t part_begin = 0;
  while (same < a.size() && same < b.size() && folded(a[same]) == folded(b[same])) {
    if (a[same] == '/') part_begin = same + 1;
    ++same;
  }
  const bool a_ends = same == a.size() && (same == b.size() || b[same] == '/');
  // The directories that they share must be spelled alike.
  return a_ends || a.substr(0, part_begin) != b.substr(0, part_begin);
}

}  // namespace

const char* why_not_a_place(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > 4096) return "is longer than 4096 bytes";
  if (path.front() == '/') return "is absolute";
  for (const char character : path) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) return "holds a control character";
    if (byte == '\\') return "holds a backslash";
  }
  if (!is_utf8(path)) return "is not UTF-8";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty()) return "has an empty part";
    if (part.size() > 255) return "has a part longer than 255 bytes";
    if (part == "." || part == "..") return "has a part '.' or '..'";
    if (std::ranges::equal(part, k_own_name, {}, folded))
      return "has a part '.wdelta', which is kept for wdelta's own state";
    if (std::ranges::equal(part, k_git_name, {}, folded)) return "has a part '.git', whose files tell git what to run";
    begin = end + 1;
  }
  return nullptr;
}

bool lies_within(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto real = [](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  };
  const std::filesystem::path between = real(inner).lexically_relative(real(outer));
  return !between.empty() && *between.begin() != "..";
}

void require_place(std::string_view path, const std::string& object) {
  if (const char* reason = why_not_a_place(path)) {
    throw Error(Fault::corrupt, object, fmt::format("path {:?}", path.substr(0, 200)).append(" ").append(reason));
  }
}

std::optional<Collision> find_collision(std::vector<std::string_view> paths) {
  std::ranges::sort(paths, comes_before);
  for (std::size_t i = 1; i < paths.size(); ++i) {
    if (collide(paths[i - 1], paths[i])) return Collision{paths[i - 1], paths[i]};
  }
  return std::nullopt;
}

// The well-formed sequences of Unicode 15, table 3-7.
bool is_utf8(std::string_view text) {
  const auto* byte = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto* end = byte + text.size();
  while (byte < end) {
    if (*byte < 0x80) {
      ++byte;
      continue;
    }
    const std::ptrdiff_t more = *byte >= 0xf0 ? 3 : *byte >= 0xe0 ? 2 : 1;
    if (*byte < 0xc2 || *byte > 0xf4 || end - byte <= more) return false;
    const std::uint8_t low = *byte == 0xe0 ? 0xa0 : *byte == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = *byte == 0xed ? 0x9f : *byte == 0xf4 ? 0x8f : 0xbf;
    if (byte[1] < low || byte[1] > high) return false;
    for (std::ptrdiff_t i = 2; i <= more; ++i) {
      if ((byte[i] & 0xc0) != 0x80) return false;
    }
    byte += more + 1;
  }
  return true;
}

}  // namespace wdelta
