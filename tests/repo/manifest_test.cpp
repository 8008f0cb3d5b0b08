// SPDX-License-Identifier: Apache-2.0
#include "repo/manifest.hpp"

#include "base/blake3.hpp"
#include "base/json.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <bit>
#include <doctest/doctest.h>
#include <functional>

namespace wdelta {

using testing::fault_of;

namespace {

Manifest sample() {
  Manifest manifest;
  manifest.parent = blake3("parent");
  manifest.time = "2026-11-21T06:15:00Z";
  manifest.author = "Jane <jane@example.org>";
  manifest.message = "größer\n\nmore";
  manifest.step = 18'000'000'000'000'000'000u;
  manifest.meta = {{"", ""}, {"a\"b", "\n"}, {"loss", "1.5"}};
  manifest.files = {{{"a/b", 3, blake3("abc")}, true, "abc"},
                    {{"a.bin", 4, blake3("x")}, false, std::string("\xff\0\xfe\x01", 4)},
                    {{"größe", 0, blake3("")}, false, ""},
                    {{"model.safetensors", std::uint64_t{1} << 45, blake3("m")}, false, std::nullopt}};
  std::ranges::sort(manifest.files, {}, [](const ManifestFile& file) { return file.identity.path; });
  manifest.recipes = blake3("book");
  manifest.ancestors = {{1, blake3("parent"), "2026-11-20T00:00:00Z", 7, "first"},
                        {2, blake3("grandparent"), "2026-11-19T00:00:00Z", std::nullopt, ""},
                        {200, blake3("long ago"), "2025-11-19T00:00:00Z", 0, "x"}};
  return manifest;
}

/// What reading the sample throws once its document was changed.
std::optional<Fault> with(const std::function<void(Json&)>& edit) {
  Json json = Json::parse(to_text(sample()));
  edit(json);
  return fault_of([&] { manifest_from(json.dump(), "manifest"); });
}

}  // namespace

TEST_CASE("a manifest reads back as it was written, and writes the same text again") {
  for (const bool minimal : {false, true}) {
    Manifest manifest = sample();
    if (minimal) {
      manifest = {};
      manifest.time = sample().time;
    }
    const std::string text = to_text(manifest);
    const Manifest back = manifest_from(text, "manifest");
    CHECK(to_text(back) == text);
    CHECK(back.parent == manifest.parent);
    CHECK(back.step == manifest.step);
    CHECK(back.meta == manifest.meta);
    REQUIRE(back.files.size() == manifest.files.size());
    for (std::size_t i = 0; i < back.files.size(); ++i) {
      CHECK(back.files[i].identity == manifest.files[i].identity);
      CHECK(back.files[i].executable == manifest.files[i].executable);
      CHECK(back.files[i].content == manifest.files[i].content);
      CHECK(back.find(manifest.files[i].identity.path) == &back.files[i]);
    }
    CHECK(back.find("a") == nullptr);
    CHECK(back.size_bytes() == manifest.size_bytes());
    CHECK(back.ancestors.size() == manifest.ancestors.size());
  }
}

TEST_CASE("files that are larger together than any disk are refused") {
  const auto with_sizes = [](const std::vector<std::uint64_t>& sizes) {
    return with([&](Json& json) {
      json["files"] = Json::array();
      for (const std::uint64_t size : sizes) {
        const std::string path = "f" + std::to_string(1'000'000 + json["files"].size());  // in order
        json["files"].push_back({{"path", path}, {"size", size}, {"digest", blake3("x").hex()}, {"executable", false}});
      }
    });
  };
  constexpr std::uint64_t k_largest_file = std::uint64_t{1} << 45;
  CHECK(with_sizes({k_largest_file}) == std::nullopt);
  CHECK(with_sizes({k_largest_file + 1}) == Fault::corrupt);
  CHECK(with_sizes({UINT64_MAX, UINT64_MAX}) == Fault::corrupt);
  // 2^62 in all.
  std::vector<std::uint64_t> sizes(std::size_t{1} << 17, k_largest_file);
  CHECK(with_sizes(sizes) == std::nullopt);
  sizes.push_back(1);
  CHECK(with_sizes(sizes) == Fault::corrupt);
}

TEST_CASE("paths that lead out of a directory, collide or are out of order are refused") {
  REQUIRE(with([](Json&) {}) == std::nullopt);
  const auto with_paths = [](const std::vector<std::string>& paths) {
    return with([&](Json& json) {
      json["files"] = Json::array();
      for (const std::string& path : paths) {
        json["files"].push_back({{"path", path}, {"size", 1}, {"digest", blake3(path).hex()}, {"executable", false}});
      }
    });
  };
  REQUIRE(with_paths({}) == std::nullopt);
  REQUIRE(with_paths({"a", "a-", "a.b", "a0", "b", "b0"}) == std::nullopt);
  REQUIRE(with_paths({"a-/x", "a/x", "a/x-", "a0/x"}) == std::nullopt);
  for (const auto& paths : std::vector<std::vector<std::string>>{{"/a"},
                                                                 {"../a"},
                                                                 {"a/../b"},
                                                                 {""},
                                                                 {"a/"},
                                                                 {".wdelta/state.json"},
                                                                 {"a\\b"},
                                                                 {"a//b"},
                                                                 {std::string("a\0", 2)},
                                                                 {"a", "a"},
                                                                 {"b", "a"},
                                                                 {"a", "a/b"},
                                                                 {"a", "a-", "a/b"},
                                                                 {"a", "a!", "a/b/c"},
                                                                 {"x/y", "x/y/z"},
                                                                 {"A.txt", "a.txt"},
                                                                 {"A/x", "a/y"},
                                                                 {"A/x", "a"},
                                                                 {"A", "a/x"},
                                                                 {".WDELTA/x"}}) {
    CHECK(with_paths(paths) == Fault::corrupt);
  }
}

TEST_CASE("content of another size, or that is no base64, is refused") {
  for (const char* text : {"", "ab", "abcd"}) {
    CHECK(with([&](Json& json) { json["files"][1]["text"] = text; }) == Fault::corrupt);
  }
  for (const char* text : {"", "YWI=", "YWJj=", "YW-j", "YWJjZA=="}) {
    CHECK(with([&](Json& json) {
            json["files"][1].erase("text");
            json["files"][1]["base64"] = text;
          }) == Fault::corrupt);
  }
  CHECK(with([](Json& json) {
          json["files"][1].erase("text");
          json["files"][1]["base64"] = "YWJj";
        }) == std::nullopt);
}

TEST_CASE("ancestors that are out of order or do not begin with the parent are refused") {
  const std::vector<std::function<void(Json&)>> edits = {
      [](Json& json) { json["ancestors"][0]["distance"] = 2; },
      [](Json& json) { json["ancestors"][1]["distance"] = 1; },
      [](Json& json) { json["ancestors"][2]["distance"] = 2; },
      [](Json& json) { json["ancestors"][0]["distance"] = 0; },
      [](Json& json) { json["parent"] = nullptr; },
      [](Json& json) { json["parent"] = blake3("other").hex(); },
      [](Json& json) { std::swap(json["ancestors"][1], json["ancestors"][2]); }};
  for (const auto& edit : edits) CHECK(with(edit) == Fault::corrupt);
}

TEST_CASE("a member that is missing or of another type is refused, and one that is not known ignored") {
  const Json whole = Json::parse(to_text(sample()));
  for (const auto& item : whole.items()) {
    const std::string& name = item.key();
    CAPTURE(name);
    CHECK(with([&](Json& json) { json.erase(name); }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json[name] = Json::array({Json::array()}); }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json[name] = true; }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json[name] = 1.5; }) == Fault::corrupt);
  }
  CHECK(with([](Json& json) { json["meta"]["a"] = 1; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["step"] = -1; }) == Fault::corrupt);
  for (const char* time : {"", "2026-11-21T06:15:00", "2026-11-21T06:15:00.5Z", "2026-11-21T06:15:0xZ", "yesterday"}) {
    CAPTURE(std::string(time));
    CHECK(with([&](Json& json) { json["time"] = time; }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json["ancestors"][1]["time"] = time; }) == Fault::corrupt);
  }
  CHECK(with([](Json& json) { json["version"] = 2; }) == Fault::unsupported);
  CHECK(with([](Json& json) {
          json["new"] = 1;
          json["files"][0]["new"] = {1};
        }) == std::nullopt);
}

TEST_CASE("every prefix of a manifest is refused, and no flipped bit makes more than an Error") {
  const std::string text = to_text(sample());
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    if (fault_of([&] { manifest_from(text.substr(0, at), "manifest"); }) != Fault::corrupt) FAIL("cut at ", at);
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      fault_of([&] { manifest_from(changed, "manifest"); });
    }
  }
}

TEST_CASE("a summary has the first line of the message, whole characters of at most 200 bytes") {
  Manifest manifest;
  for (const auto& [message, title] : {std::pair<std::string, std::string>{"a\nb", "a"},
                                       {"", ""},
                                       {"\nb", ""},
                                       {std::string(300, 'x'), std::string(200, 'x')}}) {
    manifest.message = message;
    CHECK(summary_of(blake3("x"), manifest, 3).title == title);
  }
  for (std::size_t shift = 0; shift < 4; ++shift) {
    manifest.message = std::string(shift, 'x');
    for (int i = 0; i < 100; ++i) manifest.message += "\U0001F9E0";
    const std::string title = summary_of(blake3("x"), manifest, 3).title;
    CHECK(title.size() > 196);
    CHECK(title.size() <= 200);
    CHECK((title.size() - shift) % 4 == 0);
  }
}

TEST_CASE(
    "over two thousand commits the last 64 ancestors stay in a row, and of the rest at most one in each stretch") {
  std::vector<Digest> ids;
  Manifest manifest;
  for (std::size_t number = 0; number < 2000; ++number) {
    CAPTURE(number);
    const Digest id = blake3(std::to_string(number));
    ids.push_back(id);
    Manifest child;
    child.parent = id;
    child.ancestors = ancestors_of_child(id, manifest);
    REQUIRE(child.ancestors.size() < k_recent_ancestors + 12);
    std::uint64_t last = 0;
    std::vector<int> in_stretch(64);
    for (const CommitSummary& ancestor : child.ancestors) {
      REQUIRE(ancestor.distance > last);
      if (ancestor.distance <= k_recent_ancestors) REQUIRE(ancestor.distance == last + 1);
      last = ancestor.distance;
      REQUIRE(ancestor.distance <= ids.size());
      REQUIRE(ancestor.id == ids[ids.size() - ancestor.distance]);
      if (ancestor.distance > k_recent_ancestors)
        ++in_stretch[static_cast<std::size_t>(std::bit_width(ancestor.distance))];
    }
    REQUIRE(last >= std::min<std::uint64_t>(ids.size(), k_recent_ancestors));
    for (const int count : in_stretch) REQUIRE(count <= 1);
    manifest = std::move(child);
  }
}

}  // namespace wdelta
