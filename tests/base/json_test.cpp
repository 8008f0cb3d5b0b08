// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include "base/error.hpp"
#include "base/path.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace wdelta {

using testing::fault_of;

namespace {
std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }
std::optional<Fault> parsing(std::string_view text) {
  return fault_of([&] { parse_json(text, "thing"); });
}
/// An object put together of its members.
ParsedJson of_members(std::string_view text) {
  ParsedJson json = ParsedJson::object();
  parse_members(text, "thing", [&](const std::string& name, ParsedJson&& value) {
    REQUIRE(!json.contains(name));
    json[name] = std::move(value);
  });
  return json;
}
std::optional<Fault> parsing_members(std::string_view text) {
  return fault_of([&] { of_members(text); });
}
}  // namespace

TEST_CASE("documents in UTF-8 are parsed, to the deepest nesting that is allowed") {
  const auto json = parse_json(R"({"a":[true,null,"ä\u00e4"],"b":1,"c":{}})", "thing");
  CHECK(json.dump() == R"({"a":[true,null,"ää"],"b":1,"c":{}})");
  CHECK(parsing(nested(16)) == std::nullopt);
}

TEST_CASE("what is no JSON in UTF-8, or means two things, is refused as corrupt") {
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "{",
                                          "}",
                                          "[1,]",
                                          "{\"a\":1,}",
                                          "{a:1}",
                                          "nul",
                                          "1 2",
                                          "{} {}",
                                          "'a'",
                                          "NaN",
                                          "Infinity",
                                          "01",
                                          "+1",
                                          "[1e999]",
                                          "[-1e999]",
                                          "// c\n1",
                                          "\"\xff\"",
                                          "\"\xc0\xaf\"",
                                          "\"\xed\xa0\x80\"",
                                          "\"\\ud800\"",
                                          "\"\\x41\"",
                                          "\"a\nb\"",
                                          std::string("\"a\0b\"", 5),
                                          "\"open",
                                          R"({"a":1,"a":1})",
                                          R"({"a":1,"\u0061":2})",
                                          R"({"x":{"a":1,"b":2,"a":3}})",
                                          R"([{"a":1},{"a":1,"a":2}])",
                                          nested(17),
                                          nested(100'000),
                                          std::string(100'000, '[')};
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 40));
    CHECK(parsing(text) == Fault::corrupt);
    CHECK(parsing_members(text) == Fault::corrupt);
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  CHECK(parsing(deep) == Fault::corrupt);
  CHECK(parsing_members(deep) == Fault::corrupt);
}

TEST_CASE("what is wrong with a text is said in a line, however long what it holds") {
  const auto said = [](const std::string& text) -> std::string {
    try {
      parse_json(text, "thing");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const std::string open = said("\"" + std::string(200'000, 'x'));
  CAPTURE(open);
  CHECK(open.starts_with("not valid JSON: parse error at line 1, column 200002: "));
  CHECK(open.find('[') == std::string::npos);
  CHECK(open.size() < 200);
  CHECK(said("[1,]").find("unexpected ']'") != std::string::npos);
  // Two-byte letters, so that a cut in the middle of one would show.
  std::string name = "a";
  for (int i = 0; i < 100'000; ++i) name += "ä";
  const std::string twice = said("{\"" + name + "\":1,\"" + name + "\":2}");
  CHECK(twice.size() < 10'000);
  CHECK(twice.ends_with("ä\" twice"));
  CHECK(is_utf8(twice));
}

TEST_CASE("the same name in different objects is no repetition") {
  CHECK(parsing(R"({"a":{"a":{"a":1}},"b":{"a":1},"c":[{"a":1},{"a":1}]})") == std::nullopt);
}

TEST_CASE("members one by one are those of the document, in the order of the text") {
  const std::string object = R"({"z":{"a":[{"b":[]},[1,[2,{}]]],"z":"z"},"a":[],"b":{},"c":null,"ä":-1.5,"":true})";
  CHECK(of_members(object) == parse_json(object, "thing"));
  std::string names;
  parse_members(object, "thing", [&](const std::string& name, ParsedJson&&) { names += name + ","; });
  CHECK(names == "z,a,b,c,ä,,");
  CHECK(of_members("{}").empty());
  CHECK(of_members(R"({"a":)" + nested(15) + "}").size() == 1);
  for (const std::string text : {"[]", "[{\"a\":1}]", "1", "\"a\"", "null"}) {
    CAPTURE(text);
    CHECK(parsing(text) == std::nullopt);
    CHECK(parsing_members(text) == Fault::corrupt);
  }
  const auto refused = [](const std::string&, ParsedJson&&) { throw Error(Fault::unsupported, "", ""); };
  CHECK(fault_of([&] { parse_members(object, "thing", refused); }) == Fault::unsupported);
}

TEST_CASE("elements one by one are those of the array, and the rest is the document without them") {
  const auto check = [](const std::string& text, const char* array, const std::string& elements,
                        const std::string& rest) {
    CAPTURE(text);
    ParsedJson found = ParsedJson::array();
    const auto take = [&](ParsedJson&& value) { found.push_back(std::move(value)); };
    CHECK(parse_elements(text, "thing", array, take) == parse_json(rest, "thing"));
    CHECK(found == parse_json(elements, "thing"));
  };
  const std::string object = R"({"z":{"a":[{"b":[]},1]},"a":[1,{"a":[2,[3]],"b":{}},[],{},null,["a"]],"b":[["b"]]})";
  check(object, "a", R"([1,{"a":[2,[3]],"b":{}},[],{},null,["a"]])", R"({"z":{"a":[{"b":[]},1]},"a":[],"b":[["b"]]})");
  check(object, "b", R"([["b"]])", R"({"z":{"a":[{"b":[]},1]},"a":[1,{"a":[2,[3]],"b":{}},[],{},null,["a"]],"b":[]})");
  check(object, "z", "[]", object);  // no array
  check(object, "c", "[]", object);
  check(R"({"a":[]})", "a", "[]", R"({"a":[]})");
  for (const std::string text :
       {"[]", R"([{"a":[1]}])", "1", R"({"a":[],"a":[]})", R"({"a":[1,]})", R"({"a":[{"b":1,"b":2}]})"}) {
    CAPTURE(text);
    CHECK(fault_of([&] { parse_elements(text, "thing", "a", [](ParsedJson&&) {}); }) == Fault::corrupt);
  }
  const auto refused = [](ParsedJson&&) { throw Error(Fault::unsupported, "", ""); };
  CHECK(fault_of([&] { parse_elements(object, "thing", "a", refused); }) == Fault::unsupported);
}

// An object with a member "b" of so many values and one more, the array itself.
std::string ones(std::size_t count) {
  std::string text = "{\"a\":1,\"b\":[1";
  for (std::size_t i = 1; i < count; ++i) text += ",1";
  return text + "],\"c\":[1]}";
}

TEST_CASE("an element, or a member beside the array, of very many values is refused before it takes memory") {
  const auto parsing_elements = [](const std::string& text, const char* array) {
    return fault_of([&] { parse_elements(text, "thing", array, [](ParsedJson&&) {}); });
  };
  CHECK(parsing_elements(ones(999'999), "c") == std::nullopt);
  CHECK(parsing_elements(ones(1'000'000), "c") == Fault::corrupt);
  CHECK(parsing_elements(ones(2'000'000), "b") == std::nullopt);  // each of them is one
  const std::string element = ones(999'990);
  CHECK(parsing_elements("{\"c\":[" + element + "," + element + "]}", "c") == std::nullopt);
  CHECK(parsing_elements("{\"c\":[" + ones(1'000'000) + "]}", "c") == Fault::corrupt);
}

TEST_CASE("a member of very many values is refused before it takes memory") {
  CHECK(parsing_members(ones(999'999)) == std::nullopt);  // and the array itself
  CHECK(parsing_members(ones(1'000'000)) == Fault::corrupt);
  CHECK(parsing(ones(1'000'000)) == std::nullopt);
  CHECK(parsing(ones(1'200'000)) == Fault::corrupt);
  std::string long_ones = "[\"0123456789abc\"";
  for (int i = 1; i < 1'200'000; ++i) long_ones += ",\"0123456789abc\"";
  CHECK(parsing(long_ones + "]") == std::nullopt);
}

TEST_CASE("a member that is missing or of another type is refused, and the refusal names it") {
  const auto json = parse_json(
      R"({"s":"x","n":7,"neg":-1,"f":1.5,"e":1e2,"big":18446744073709551615,"over":18446744073709551616,"b":true,"a":[],"null":null})",
      "thing");
  CHECK(string_member(json, "s", "thing") == "x");
  CHECK(size_member(json, "n", "thing") == 7);
  CHECK(size_member(json, "big", "thing") == UINT64_MAX);
  CHECK(bool_member(json, "b", "thing"));
  CHECK(array_member(json, "a", "thing").empty());
  for (const char* name : {"neg", "f", "e", "over", "s", "b", "a", "null", "none"}) {
    CAPTURE(name);
    const auto read = [&] { size_member(json, name, "thing"); };
    CHECK(fault_of(read) == Fault::corrupt);
    CHECK(testing::message_of(read).find(name) != std::string::npos);
  }
  for (const char* name : {"n", "b", "a", "null", "none"}) {
    CAPTURE(name);
    CHECK(fault_of([&] { string_member(json, name, "thing"); }) == Fault::corrupt);
    CHECK(fault_of([&] { digest_member(json, name, "thing"); }) == Fault::corrupt);
  }
  for (const char* name : {"n", "s", "null", "none"}) {
    CAPTURE(name);
    CHECK(fault_of([&] { bool_member(json, name, "thing"); }) == Fault::corrupt);
    CHECK(fault_of([&] { array_member(json, name, "thing"); }) == Fault::corrupt);
  }
  for (const char* text : {"[]", "1", "\"s\"", "null"}) {
    CHECK(fault_of([&] { member(parse_json(text, "thing"), "s", "thing"); }) == Fault::corrupt);
  }
}

TEST_CASE("a sealed document opens, and every cut, flipped bit or added byte is refused") {
  const std::string text = seal({{"format", "test"}, {"version", 1}, {"name", "größe"}, {"list", {1, 2, 3}}});
  const auto opening = [](std::string_view given) { return fault_of([&] { open_sealed(given, "test", "thing"); }); };
  REQUIRE(opening(text) == std::nullopt);
  CHECK(open_sealed(text, "test", "thing")["name"] == "größe");
  for (std::size_t length = 0; length < text.size(); ++length) {
    REQUIRE(opening(std::string_view(text).substr(0, length)) == Fault::corrupt);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ static_cast<char>(flip));
      if (opening(changed) != Fault::corrupt) FAIL("byte ", i, " flipped by ", flip, " was not noticed");
    }
  }
  CHECK(opening(text + " ") == Fault::corrupt);
  CHECK(opening(" " + text) == Fault::corrupt);
  CHECK(opening(text + text) == Fault::corrupt);
}

TEST_CASE("a sealed document of another format is corrupt, one of another version unsupported") {
  const auto opening = [](const Json& json) { return fault_of([&] { open_sealed(seal(json), "test", "thing"); }); };
  CHECK(opening({{"format", "other"}, {"version", 1}}) == Fault::corrupt);
  CHECK(opening({{"version", 1}}) == Fault::corrupt);
  CHECK(opening({{"format", "test"}}) == Fault::corrupt);
  CHECK(opening({{"format", "test"}, {"version", "1"}}) == Fault::corrupt);
  for (const unsigned version : {0u, 2u, 99u}) {
    CHECK(opening({{"format", "test"}, {"version", version}}) == Fault::unsupported);
  }
}

}  // namespace wdelta
