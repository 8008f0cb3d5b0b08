// SPDX-License-Identifier: Apache-2.0
#include "base/path.hpp"

#include "testing/fault.hpp"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace wdelta {

TEST_CASE(
    "paths collide when one is, or lies in, the other, or when their case is all that tells parts of them apart") {
  // The law, said without sorting: of all parts and all directories, no two differ in case only.
  const auto lower = [](std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
  };
  const auto collides = [&](const std::vector<std::string>& paths) {
    std::map<std::string, std::string> spelled;
    std::set<std::string> files;
    for (const std::string& path : paths) {
      if (!files.insert(lower(path)).second) return true;
      for (std::size_t i = 0; i <= path.size(); ++i) {
        if (i < path.size() && path[i] != '/') continue;
        const std::string part = path.substr(0, i);
        if (spelled.emplace(lower(part), part).first->second != part) return true;
      }
    }
    return std::ranges::any_of(files, [&](const std::string& file) {
      return std::ranges::any_of(files, [&](const std::string& other) { return other.starts_with(file + "/"); });
    });
  };
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> paths;
    for (auto i = random() % 4 + 1; i > 0; --i) {
      std::string path;
      for (auto part = random() % 3; part <= 2; ++part) {
        path += path.empty() ? "" : "/";
        for (auto c = random() % 2; c <= 1; ++c) path += "abAB-0"[random() % 6];
      }
      paths.push_back(path);
    }
    CAPTURE(paths.front());
    CAPTURE(paths.back());
    const auto collision = find_collision({paths.begin(), paths.end()});
    REQUIRE(collision.has_value() == collides(paths));
    found += collision.has_value() ? 1 : 0;
  }
  CHECK(found > 1000);
  CHECK(found < 19000);
}

TEST_CASE("ordinary relative paths are places") {
  for (const std::string path :
       {"a", "model.safetensors", "a/b/c.txt", "with space/and more.json", ".hidden", "..a", "a..", "...", ".wdelta2",
        "x.wdelta", "größe/模型.safetensors", "\xf0\x9f\xa7\xa0", "a@b", "a:b", "~", "-rf", "con", "a b ", "%2e%2e"}) {
    CAPTURE(path);
    CHECK(why_not_a_place(path) == nullptr);
  }
  std::string longest(4096, 'a');
  for (std::size_t i = 255; i < longest.size(); i += 256) longest[i] = '/';
  longest.back() = 'a';
  longest[longest.size() - 2] = '/';
  CHECK(why_not_a_place(longest.substr(0, 4094)) == nullptr);
  CHECK(why_not_a_place(longest) == nullptr);
  CHECK(why_not_a_place(longest + "a") != nullptr);
}

TEST_CASE("a path that could lead elsewhere, or that some system cannot keep, is no place") {
  std::vector<std::string> paths = {"",
                                    "/",
                                    "/a",
                                    "//a",
                                    "a/",
                                    "a//b",
                                    ".",
                                    "..",
                                    "./a",
                                    "../a",
                                    "a/.",
                                    "a/..",
                                    "a/../b",
                                    "a/./b",
                                    ".wdelta",
                                    ".wdelta/state.json",
                                    "a/.wdelta",
                                    "a/.wdelta/b",
                                    "a\\b",
                                    "..\\a",
                                    "\\",
                                    std::string(256, 'a'),
                                    "a/" + std::string(256, 'a') + "/b",
                                    "\xff",
                                    "a\xc0\xaf"
                                    "b",
                                    "\xed\xa0\x80"};
  for (char control = 1; control < 0x20; ++control) paths.push_back(std::string("a") + control + "b");
  paths.push_back(std::string("a\0b", 3));
  paths.push_back("a\x7f");
  for (const std::string& path : paths) {
    CAPTURE(path.substr(0, 50));
    CHECK(why_not_a_place(path) != nullptr);
    CHECK(testing::fault_of([&] { require_place(path, "thing"); }) == Fault::corrupt);
  }
}

// Written from the definition (Unicode 15, D92), not from a table of ranges.
namespace {
bool is_utf8_by_definition(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const unsigned length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    for (unsigned k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte >> 6 != 2) return false;
      point = point << 6 | (byte & 0x3f);
    }
    constexpr std::uint32_t k_smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < k_smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    i += length;
  }
  return true;
}
}  // namespace

TEST_CASE("UTF-8 is told apart as Unicode defines it, for every sequence of up to three bytes and the edges of four") {
  std::string text;
  const auto agrees = [&] {
    if (is_utf8(text) != is_utf8_by_definition(text)) FAIL("differs");
  };
  for (unsigned a = 0; a < 256; ++a) {
    text = {static_cast<char>(a)};
    agrees();
    for (unsigned b = 0; b < 256; ++b) {
      text = {static_cast<char>(a), static_cast<char>(b)};
      agrees();
      for (unsigned c = 0; c < 256; c += a >= 0xe0 ? 1 : 51) {
        text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        agrees();
      }
    }
  }
  for (unsigned a = 0xef; a < 0x100; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      for (const unsigned c : {0x00u, 0x7fu, 0x80u, 0xbfu, 0xc0u, 0xffu}) {
        for (const unsigned d : {0x00u, 0x7fu, 0x80u, 0xbfu, 0xc0u, 0xffu}) {
          text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c), static_cast<char>(d)};
          agrees();
        }
      }
    }
  }
}

}  // namespace wdelta
