// SPDX-License-Identifier: Apache-2.0
#include "base/moment.hpp"

#include <doctest/doctest.h>

namespace wdelta {

TEST_CASE("times have fractions of any length, or none") {
  CHECK(milliseconds_of("1970-01-01T00:00:01Z") == 1000);
  CHECK(milliseconds_of("1970-01-01T00:00:01.5Z") == 1500);
  CHECK(milliseconds_of("1970-01-01T00:00:01.123456Z") == 1123);
  for (const char* none :
       {"", "1970-01-01", "1970-01-01T00:00:01.Z", "1970-01-01T00:00:01.5", "1970-01-01T00:00:01.xZ"})
    CHECK(milliseconds_of(none) == std::nullopt);
}

}  // namespace wdelta
