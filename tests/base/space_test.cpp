// SPDX-License-Identifier: Apache-2.0
#include "base/space.hpp"

#include "base/error.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace wdelta {

using testing::fault_of;
using testing::ScratchDirectory;

TEST_CASE("work that fits, or of which nobody knows, is let through; what is missing is said to the byte") {
  constexpr std::uint64_t k_most = std::numeric_limits<std::uint64_t>::max();
  for (const Space space : {Space{0, 0}, Space{1'000, 1'000}, Space{k_most, k_most}, Space{k_most, std::nullopt}}) {
    CHECK(fault_of([&] { require_space("disk", space); }) == std::nullopt);
  }
  struct Refusal {
    Space space;
    const char* text;
  };
  for (const Refusal& refusal :
       {Refusal{{1'234'567, 1'000}, "needs 1,234,567 bytes, 1,000 are free: 1,233,567 are missing"},
        Refusal{{1, 0}, "needs 1 bytes, 0 are free: 1 are missing"},
        Refusal{{100'000, 99'999}, "needs 100,000 bytes, 99,999 are free: 1 are missing"}}) {
    try {
      require_space("disk", refusal.space);
      FAIL("not refused: ", refusal.text);
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::local);
      CHECK(error.object() == "disk");
      CHECK(std::string(error.what()) == refusal.text);
    }
  }
}

TEST_CASE("files in a directory take the room that is allocated for them, and one that is not there takes none") {
  const ScratchDirectory scratch;
  CHECK(taken_bytes_in(scratch / "none") == 0);
  CHECK(taken_bytes_in(scratch.path()) == 0);
  testing::put_file(scratch / "a", std::string(1'000'000, 'x'));
  testing::put_file(scratch / "below/b", std::string(1'000'000, 'x'));
  std::filesystem::resize_file(scratch / "a", std::uintmax_t{1} << 30);  // a hole takes no room
  const std::uint64_t taken = taken_bytes_in(scratch.path());
  CHECK(taken >= 1'000'000);
  CHECK(taken < 2'000'000);
  CHECK(are_on_one_file_system(scratch.path(), scratch / "not/there/yet"));
  CHECK_FALSE(are_on_one_file_system(scratch.path(), "/proc"));
}

TEST_CASE("free space is that of the file system that a path will be on") {
  ScratchDirectory scratch;
  const auto here = free_bytes_at(scratch.path());
  REQUIRE(here.has_value());
  const auto below = free_bytes_at(scratch / "not/there/yet");
  REQUIRE(below.has_value());
  CHECK(*below < *here + (std::uint64_t{1} << 30));
  CHECK(*here < *below + (std::uint64_t{1} << 30));
  CHECK(free_bytes_at("/proc") == std::nullopt);  // a file system of no blocks
  CHECK(fault_of([&] { require_space_at(scratch / "out", *here + (std::uint64_t{1} << 40)); }) == Fault::local);
  CHECK(fault_of([&] { require_space_at("/proc/out", *here + (std::uint64_t{1} << 40)); }) == std::nullopt);
}

}  // namespace wdelta
