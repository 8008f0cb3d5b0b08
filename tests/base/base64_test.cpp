// SPDX-License-Identifier: Apache-2.0
#include "base/base64.hpp"

#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>

namespace wdelta {

TEST_CASE("base64 writes the vectors of RFC 4648") {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == std::string(bytes));
  }
}

TEST_CASE("base64 reads back what it wrote, for every length") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string bytes = testing::text_of(testing::random_bytes(random, length));
    REQUIRE(from_base64(to_base64(bytes)) == bytes);
  }
}

TEST_CASE("base64 is refused unless it is the one encoding of its bytes") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9", "Zm9=", "Zm8", "=", "====", "Zm9v=", "Zm 9v",
                           "Zm9v\n", "Zm9-", "Zm9_", "Zg==Zg==", "Z=g=", "\xc3\xa4\xc3\xa4"}) {
    CAPTURE(text);
    CHECK(from_base64(text) == std::nullopt);
  }
}

TEST_CASE("any text that reads as base64 is what would be written for it") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  constexpr std::string_view k_letters = "AQgwZz09+/=== ";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t length = random() % 9; text.size() < length;) text += k_letters[random() % k_letters.size()];
    if (const auto bytes = from_base64(text)) REQUIRE(to_base64(*bytes) == text);
  }
}

}  // namespace wdelta
