// SPDX-License-Identifier: Apache-2.0
#include "repo/file_stamp_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "testing/fault.hpp"

#include <cstdint>
#include <doctest/doctest.h>
#include <string>

namespace wdelta {

using testing::fault_of;

TEST_CASE("a stamp comes back as it was, and one whose times are no numbers is refused") {
  const FileStamp stamp{.size_bytes = 1, .mtime_ns = -2, .inode = 4, .device = 5, .ctime_ns = INT64_MAX};
  const std::string text = to_json(stamp).dump();
  const FileStamp read = file_stamp_from(parse_json(text, "state"), "state");
  CHECK(read == stamp);
  CHECK(read.ctime_ns == stamp.ctime_ns);
  for (const std::string wrong : {"", "abc", "1x", " 1", "1.0", "9223372036854775808"}) {
    CAPTURE(wrong);
    std::string damaged = text;
    damaged.replace(damaged.find("\"-2\""), 4, "\"" + wrong + "\"");
    CHECK(fault_of([&] { file_stamp_from(parse_json(damaged, "state"), "state"); }) == Fault::corrupt);
  }
}

}  // namespace wdelta
