// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_copy.hpp"

#include "base/blake3.hpp"
#include "base/output_file.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using testing::ScratchDirectory;

TEST_CASE("a copy by the kernel has all bytes, a digest that says so, and nothing in common with what was copied") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  ScratchDirectory scratch;
  for (const std::size_t size : {0, 1, 4095, 4096, 100'000, 9'000'001}) {
    CAPTURE(size);
    const auto bytes = testing::random_bytes(random, size);
    testing::put_file(scratch / "from", testing::text_of(bytes));
    testing::RecordedProgress progress;
    OutputFile copy(scratch / "to");
    CHECK(kernel_copy(File::open(scratch / "from"), copy, Execution{2, &progress, {}}) == blake3(bytes));
    CHECK(progress.advanced_bytes() == size);
    copy.commit(Overwrite::yes, Durability::cached);
    testing::put_file(scratch / "from", "other bytes");
    CHECK(testing::get_file(scratch / "to") == testing::text_of(bytes));
    CHECK(std::filesystem::hard_link_count(scratch / "to") == 1);
  }
}

TEST_CASE("a copy by the kernel stops when told to") {
  ScratchDirectory scratch;
  testing::put_file(scratch / "from", std::string(100'000, 'x'));
  testing::RecordedProgress progress;
  std::stop_source stop;
  stop.request_stop();
  OutputFile copy(scratch / "to");
  CHECK(testing::fault_of([&] {
          kernel_copy(File::open(scratch / "from"), copy, Execution{1, &progress, stop.get_token()});
        }) == Fault::interrupted);
}

TEST_CASE("a copy of a file that shrank is not passed off as one") {
  ScratchDirectory scratch;
  testing::put_file(scratch / "from", std::string(100'000, 'x'));
  const File from = File::open(scratch / "from");
  std::filesystem::resize_file(scratch / "from", 50'000);
  OutputFile copy(scratch / "to");
  CHECK(testing::fault_of([&] { kernel_copy(from, copy, testing::SilentExecution()); }) == Fault::local);
}

}  // namespace wdelta
