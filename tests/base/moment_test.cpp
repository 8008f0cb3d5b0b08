// SPDX-License-Identifier: Apache-2.0
#include "base/moment.hpp"

#include <doctest/doctest.h>
#include <string>

namespace wdelta {

TEST_CASE("seconds are those since 1970, of any day that there is") {
  CHECK(seconds_of("1970-01-01T00:00:00Z") == 0);
  CHECK(seconds_of("2026-11-21T06:15:00Z") == 1795241700);
  CHECK(seconds_of("2024-02-29T23:59:59Z") == 1709251199);
  CHECK(seconds_of("1969-12-31T23:59:59Z") == -1);
  CHECK(seconds_of("2016-12-31T23:59:60Z") == seconds_of("2017-01-01T00:00:00Z"));
  CHECK(seconds_of("9999-12-31T23:59:59Z") == 253402300799);
  CHECK(seconds_of(now_text()).has_value());
}

TEST_CASE("what is no time, or of no day, has no seconds") {
  using namespace std::string_literals;
  for (const std::string& none : {""s,
                                  "2026-01-01"s,
                                  "2026-02-31T00:00:00Z"s,
                                  "2026-02-29T00:00:00Z"s,
                                  "2026-00-01T00:00:00Z"s,
                                  "2026-13-01T00:00:00Z"s,
                                  "2026-01-00T00:00:00Z"s,
                                  "2026-01-32T00:00:00Z"s,
                                  "2026-01-01T24:00:00Z"s,
                                  "2026-01-01T00:60:00Z"s,
                                  "2026-01-01T00:00:61Z"s,
                                  "2026-1-1T1:1:1Z"s,
                                  "2026- 1- 1T 1: 1: 1Z"s,
                                  "1-01-01T00:00:00Z"s,
                                  "+026-01-01T00:00:00Z"s,
                                  " 2026-01-01T00:00:00Z"s,
                                  "2026-01-01T00:00:00"s,
                                  "2026-01-01T00:00:00Zx"s,
                                  "2026-01-01T00:00:00Z "s,
                                  "2026-01-01T00:00:00Z\0x"s,
                                  "2026-01-01t00:00:00z"s}) {
    CAPTURE(none);
    CHECK(seconds_of(none) == std::nullopt);
    CHECK(milliseconds_of(none) == std::nullopt);
  }
}

TEST_CASE("times have fractions of any length, or none") {
  CHECK(milliseconds_of("1970-01-01T00:00:01Z") == 1000);
  CHECK(milliseconds_of("1970-01-01T00:00:01.5Z") == 1500);
  CHECK(milliseconds_of("1970-01-01T00:00:01.123456Z") == 1123);
  for (const char* none :
       {"", "1970-01-01", "1970-01-01T00:00:01.Z", "1970-01-01T00:00:01.5", "1970-01-01T00:00:01.xZ"})
    CHECK(milliseconds_of(none) == std::nullopt);
}

}  // namespace wdelta
