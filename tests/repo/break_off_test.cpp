// SPDX-License-Identifier: Apache-2.0
// Work that is broken off anywhere, and others who work at the same time.
#include "repo/world.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <thread>

namespace wdelta {

using namespace testing;

namespace {

/// Runs something else in the middle of the work that it is given to.
class InterruptingProgress final : public RecordedProgress {
 public:
  InterruptingProgress(int calls, std::function<void()> other) : calls_left_(calls), other_(std::move(other)) {}
  void advance(std::uint64_t) override {
    if (calls_left_-- == 0) other_();
  }
  bool ran() const { return calls_left_ < 0; }

 private:
  int calls_left_;
  std::function<void()> other_;
};

bool is_entrance(const std::string& place) { return place == "config.json" || place == "model.safetensors.index.json"; }

/// Whether a loader that starts now finds all of `commit` but entrances still to come, and no weights besides.
bool is_all_of(const Files& files, const Files& commit) {
  for (const auto& [place, content] : commit) {
    const auto found = files.find(place);
    if (found == files.end() ? !is_entrance(place) : found->second != content) return false;
  }
  return std::ranges::all_of(files,
                             [&](const auto& file) { return !is_weights(file.first) || commit.contains(file.first); });
}

bool is_unloadable(const Files& files) {
  return std::ranges::none_of(files, [](const auto& file) { return is_entrance(file.first); });
}

/// Pulls `revision` into `directory`, broken off at the k-th sign of progress; whether it came to its end.
bool pull_up_to(const World& world, const std::string& revision, const fs::path& directory, std::uint64_t k) {
  BreakingProgress progress(k);
  const auto fault = fault_of([&] { world.pull(revision, directory, Execution{1, &progress, {}}); });
  if (fault && fault != Fault::interrupted) FAIL("pull: ", name_of(*fault));
  return !fault;
}

}  // namespace

TEST_CASE(
    "a pull that is broken off anywhere leaves an old or new checkpoint or one that no loader takes, and the next one "
    "finishes") {
  const World world;
  world.push_step(0);
  world.push_step(1);
  const Files commits[] = {commit_files(0), commit_files(1)};
  const auto check = [&](const fs::path& directory, int from, int to) {
    const Files files = fs::exists(directory) ? files_below(directory) : Files();
    const bool whole = is_all_of(files, commits[to]) || (from >= 0 && is_all_of(files, commits[from]));
    std::string held;
    for (const auto& [place, content] : files) {
      const auto is = [&, &where = place, &what = content](int step) {
        const auto found = commits[step].find(where);
        return found != commits[step].end() && found->second == what;
      };
      held += place + (is(0) ? " of 0" : "") + (is(1) ? " of 1" : "") + "; ";
    }
    CAPTURE(held);
    CHECK((whole || is_unloadable(files)));
  };
  for (const auto& steps : {std::pair(-1, 1), {0, 1}, {1, 0}}) {
    const auto& from = steps.first;
    const auto& to = steps.second;
    CAPTURE(from);
    CAPTURE(to);
    const std::string revision = "step:" + std::to_string(to);
    bool finished = false;
    for (std::uint64_t k = 0; !finished && k < 100; ++k) {
      CAPTURE(k);
      // The second pull is broken off too, at every place.
      bool second_finished = false;
      for (std::uint64_t j = 0; !second_finished && !finished && j < 100; ++j) {
        CAPTURE(j);
        const fs::path directory =
            world / ("out-" + std::to_string(from + 1) + "-" + std::to_string(k) + "-" + std::to_string(j));
        if (from >= 0) world.pull("step:" + std::to_string(from), directory);
        finished = pull_up_to(world, revision, directory, k);
        check(directory, from, to);
        second_finished = pull_up_to(world, revision, directory, j);
        check(directory, from, to);
        world.pull(revision, directory);
        REQUIRE((files_below(directory) == commits[to]));
        CHECK(world.pull(revision, directory).written_files == 0);
      }
    }
    CHECK(finished);
  }
}

TEST_CASE("a pull that was broken off can be turned back to where it came from") {
  const World world;
  world.push_step(0);
  world.push_step(1);
  bool finished = false;
  for (std::uint64_t k = 0; !finished && k < 100; ++k) {
    CAPTURE(k);
    const fs::path directory = world / ("out" + std::to_string(k));
    world.pull("step:0", directory);
    finished = pull_up_to(world, "step:1", directory, k);
    world.pull("step:0", directory);
    CHECK((files_below(directory) == commit_files(0)));
  }
}

TEST_CASE("a push that is broken off anywhere leaves a whole repository, and the next one succeeds") {
  for (const AnchorChoice anchor : {AnchorChoice::never, AnchorChoice::now}) {
    bool finished = false;
    for (std::uint64_t k = 0; !finished && k < 100; ++k) {
      CAPTURE(k);
      const World world;
      const Digest first = world.push_step(0);
      BreakingProgress progress(k);
      PushOptions options;
      options.anchor = anchor;
      options.tag = "release";
      CommitDraft draft;
      draft.step = 1;
      const auto fault = fault_of([&] {
        world.push(world.checkpoint(1), options, draft, Execution{1, &progress, {}});
      });
      REQUIRE((!fault || fault == Fault::interrupted));
      finished = !fault;
      CHECK(world.verify() == std::vector<std::string>());
      world.pull("step:0", world / "before");
      CHECK((files_below(world / "before") == commit_files(0)));

      const PushReport again = world.push(world.checkpoint(1), options, draft, SilentExecution());
      CHECK(world.verify() == std::vector<std::string>());
      CHECK(world.repository().resolve("main") == again.id);
      CHECK(world.repository().resolve("release") == again.id);
      CHECK(world.repository().resolve("main~1") == first);
      world.pull("main", world / "after");
      CHECK((files_below(world / "after") == commit_files(1)));
    }
    CHECK(finished);
  }
}

TEST_CASE("of two hosts that push at once the one that comes second loses with a conflict, and nothing is lost") {
  bool ran = true;
  for (int k = 0; ran && k < 100; ++k) {
    CAPTURE(k);
    const World world;
    const Digest first = world.push_step(0);
    std::optional<Digest> second;
    InterruptingProgress progress(k, [&] { second = world.push_step(2, AnchorChoice::never, "other host"); });
    const auto fault = fault_of([&] { world.push(world.checkpoint(1), {}, {}, Execution{1, &progress, {}}); });
    ran = progress.ran();
    CHECK(fault == (ran ? std::optional(Fault::conflict) : std::nullopt));
    CHECK(world.verify() == std::vector<std::string>());
    if (ran) CHECK(world.repository().resolve("main") == second);
    CHECK(world.repository().resolve("main~1") == first);
    // The loser pushes again and comes on top.
    world.push(world.checkpoint(1));
    CHECK(world.verify() == std::vector<std::string>());
    world.pull("main", world / "out");
    CHECK((files_below(world / "out") == commit_files(1)));
  }
}

TEST_CASE("threads that push from hosts of their own each win or conflict, and all who won are in the history") {
  for (int round = 0; round < 5; ++round) {
    const World world;
    world.push_step(0);
    for (int step = 1; step <= 4; ++step) world.checkpoint(step);
    std::vector<std::optional<Fault>> faults(5);
    {
      std::vector<std::jthread> hosts;
      for (int step = 1; step <= 4; ++step) {
        hosts.emplace_back([&, step] {
          faults[static_cast<std::size_t>(step)] =
              fault_of([&] { world.push_step(step, AnchorChoice::never, "host " + std::to_string(step)); });
        });
      }
    }
    int won = 0;
    for (int step = 1; step <= 4; ++step) {
      const auto fault = faults[static_cast<std::size_t>(step)];
      CHECK((!fault || fault == Fault::conflict));
      if (fault) continue;
      ++won;
      const fs::path out = world / ("out" + std::to_string(step));
      world.pull("step:" + std::to_string(step), out);
      CHECK((files_below(out) == commit_files(step)));
    }
    CHECK(won >= 1);
    CHECK(world.verify() == std::vector<std::string>());
  }
}

TEST_CASE("pushes from one host queue, so that none conflicts") {
  const World world;
  for (int step = 1; step <= 4; ++step) world.checkpoint(step);
  std::vector<std::optional<Fault>> faults(5);
  {
    std::vector<std::jthread> pushes;
    for (int step = 1; step <= 4; ++step) {
      pushes.emplace_back(
          [&, step] { faults[static_cast<std::size_t>(step)] = fault_of([&] { world.push_step(step); }); });
    }
  }
  for (const auto& fault : faults) CHECK(fault == std::nullopt);
  CHECK(world.repository().commit(world.repository().resolve("main")).manifest.ancestors.size() == 3);
  CHECK(world.verify() == std::vector<std::string>());
}

}  // namespace wdelta
