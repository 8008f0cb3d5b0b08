// SPDX-License-Identifier: Apache-2.0
// Pulls of many small files, several at a time.
#include "repo/world.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr int k_shards = 24;

/// Shards of one size, whose tensors change places from step to step, so that a file is made from several others and
/// needed by several.
void write_shards(const fs::path& directory, int step) {
  std::mt19937_64 random(1);
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 2 * k_shards; ++i) {
    tensors.push_back(random_tensor("t" + std::to_string(i), {"BF16", 16}, 4'000, random));
    for (int change = 0; change < 100; ++change)
      tensors.back().bytes[static_cast<std::size_t>(70 * change + step)] ^= 1;
  }
  const auto tensor = [&](int place) { return tensors[static_cast<std::size_t>((place + 3 * step) % (2 * k_shards))]; };
  for (int shard = 0; shard < k_shards; ++shard) {
    put_file(directory / ("model-" + std::to_string(shard) + ".safetensors"),
             safetensors_file({tensor(2 * shard), tensor(2 * shard + 1)}));
    put_file(directory / "side" / std::to_string(shard) / "file", std::string(70'000, static_cast<char>('a' + step)));
  }
  put_file(directory / "config.json", "{\"step\":" + std::to_string(step) + "}");
}

class ShardedRun {
 public:
  ShardedRun() {
    for (int step = 0; step < 3; ++step) {
      const fs::path checkpoint = world_ / ("shards-" + std::to_string(step));
      write_shards(checkpoint, step);
      CommitDraft draft;
      draft.step = step;
      world_.push(checkpoint, {}, draft, SilentExecution());
    }
  }
  PullReport pull(int step, const fs::path& directory, const Execution& execution) const {
    return world_.pull("step:" + std::to_string(step), directory, execution);
  }
  Files files(int step) const { return files_below(world_ / ("shards-" + std::to_string(step))); }
  fs::path operator/(std::string_view name) const { return world_ / name; }

 private:
  World world_;
};

}  // namespace

TEST_CASE("files that are written side by side or in lanes are those that are written one after the other") {
  const ShardedRun shards;
  for (const unsigned threads : {2U, 3U, 7U, 8U, 16U}) {  // with 7 and 16 in lanes
    CAPTURE(threads);
    const fs::path directory = shards / ("out-" + std::to_string(threads));
    for (const int step : {1, 2, 0, 1}) {
      RecordedProgress progress;
      const PullReport report = shards.pull(step, directory, Execution{threads, &progress, {}});
      REQUIRE((files_below(directory) == shards.files(step)));
      CHECK(progress.advanced_bytes() >= report.written_bytes);
      CHECK(shards.pull(step, directory, SilentExecution(threads)).written_files == 0);
    }
  }
}

TEST_CASE("pulls of many files that break off while several are on their way are finished by the next one") {
  const ShardedRun shards;
  for (const unsigned threads : {4U, 7U}) {  // with 7 in lanes
    CAPTURE(threads);
    const fs::path directory = shards / ("out-" + std::to_string(threads));
    shards.pull(0, directory, SilentExecution());
    bool finished = false;
    for (std::uint64_t k = 0; !finished; k += 1 + k / 4) {
      CAPTURE(k);
      const int step = static_cast<int>(k % 2) + 1;
      BreakingProgress progress(k);
      const auto fault = fault_of([&] { shards.pull(step, directory, Execution{threads, &progress, {}}); });
      finished = !fault;
      CHECK(fault.value_or(Fault::interrupted) == Fault::interrupted);
      const Files files = files_below(directory);
      // What came to its place is whole, and no loader starts on a mixture.
      for (const auto& file : files) {
        const auto is_of = [&](int each) { return shards.files(each).at(file.first) == file.second; };
        CHECK_MESSAGE(std::ranges::any_of(std::array{0, 1, 2}, is_of), file.first);
      }
      if (!finished) CHECK((files == shards.files(0) || !files.contains("config.json")));
      shards.pull(0, directory, SilentExecution(threads));
      REQUIRE((files_below(directory) == shards.files(0)));
    }
  }
}

}  // namespace wdelta
