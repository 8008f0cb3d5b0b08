// SPDX-License-Identifier: Apache-2.0
// A commit that reported success and that a late entry took out of the branch: it stays, and everybody is told.
#include "base/blake3.hpp"
#include "base/json.hpp"
#include "repo/entry_check.hpp"
#include "repo/gc.hpp"
#include "repo/ref_entry.hpp"
#include "repo/world.hpp"
#include "testing/fault.hpp"
#include "testing/memory_store.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <thread>

namespace wdelta {

using testing::fault_of;
using testing::MemoryBucket;
using testing::MemoryStore;
using testing::MemoryTraits;
using testing::RecordedProgress;
using testing::SilentExecution;

namespace {

/// A repository in memory, and hosts that push to it.
class ContestedWorld {
 public:
  ContestedWorld() {
    MemoryTraits traits;
    traits.contest = Contest{std::chrono::milliseconds(30), std::chrono::milliseconds(1)};
    traits.hidden_ms = [this](const std::string& key) { return key == late_key ? 1'000'000 : 0; };
    traits.now_ms = [this, real = traits.now_ms] { return real() + ahead_ms; };
    bucket_ = std::make_shared<MemoryBucket>(traits);
  }

  Repository open() const { return Repository::open_or_create(std::make_unique<MemoryStore>(bucket_)); }

  PushReport push(int step, const std::string& host, const PushOptions& given = {}) {
    PushOptions options = given;
    options.state_directory = scratch_ / host;
    options.anchor = AnchorChoice::never;
    const testing::fs::path path = scratch_ / ("step-" + std::to_string(step));
    testing::write_checkpoint(path, step);
    Repository repository = open();
    RecordedProgress progress;
    const PushReport report =
        wdelta::push(repository, Checkpoint::open(path), {}, options, best_engine(), Execution{1, &progress, {}});
    notes = progress.notes();
    return report;
  }

  std::string late_key;
  std::atomic<std::int64_t> ahead_ms = 0;
  std::vector<std::string> notes;

 private:
  testing::ScratchDirectory scratch_;
  std::shared_ptr<MemoryBucket> bucket_;
};

bool has_note(const std::vector<std::string>& notes, const Digest& commit) {
  return std::ranges::any_of(notes, [&](const std::string& note) {
    return note.find("fork") != std::string::npos && note.find(commit.hex()) != std::string::npos;
  });
}

std::vector<std::string> notes_of_verify(const Repository& repository) {
  RecordedProgress progress;
  const VerifyReport report =
      verify_repository(repository, VerifyDepth::deep, best_engine(), Execution{1, &progress, {}});
  CHECK(report.is_ok());
  return progress.notes();
}

}  // namespace

TEST_CASE("pushes to a store without exclusive creation go through contested entries, branches and tags alike") {
  ContestedWorld world;
  PushOptions options;
  options.tag = "v1";
  const Digest first = world.push(1, "a", options).id;
  const Digest second = world.push(2, "b").id;
  const Repository repository = world.open();
  CHECK(repository.refs().are_contested());
  CHECK(repository.resolve("main") == second);
  CHECK(repository.resolve("main~1") == first);
  CHECK(repository.resolve("v1") == first);
  CHECK(repository.refs().list(RefKind::branch).at("main").number == 2);
  CHECK(repository.refs().forks(RefKind::branch).empty());
  CHECK(notes_of_verify(repository).empty());
  CHECK_FALSE(world.push(2, "c").created);
  for (const Store::Listed& listed : repository.store().list("branches/")) CHECK(listed.key.size() == 14 + 82);
}

TEST_CASE("a late entry makes a fork: log, push and verify tell of it, gc keeps it, and a name for it ends that") {
  ContestedWorld world;
  const Digest base = world.push(1, "a").id;
  PushOptions aside;
  aside.branch = "aside";
  const Digest late = world.push(2, "b", aside).id;
  Repository repository = world.open();
  Refs refs = repository.refs();
  const RefState before = refs.read(RefKind::branch, "main");
  const RefEntry entry{late, std::string(32, 'a'), before.write};
  world.late_key = contested_key("branches/main/", 2, entry.write, entry.before);
  repository.store().create(world.late_key, to_text(entry));
  const Digest forked = world.push(3, "a").id;
  CHECK(repository.resolve("main") == forked);
  CHECK(world.notes.empty());

  world.ahead_ms = 2'000'000;  // now the store shows it
  CHECK(repository.resolve("main") == late);
  const std::vector<Fork> forks = refs.forks(RefKind::branch, "main");
  REQUIRE(forks.size() == 1);
  CHECK(forks.front().commit == forked);
  CHECK(has_note(notes_of_verify(repository), forked));
  const Digest next = world.push(4, "a").id;
  CHECK(has_note(world.notes, forked));
  CHECK(repository.commit(next).manifest.parent == late);

  collect_garbage(repository, std::chrono::seconds(0), GcMode::carry_out, SilentExecution());
  CHECK(verify_commit(repository, repository.commit(forked), best_engine(), SilentExecution()).is_ok());
  CHECK(repository.resolve(forked.hex().substr(0, 12)) == forked);
  CHECK(repository.commit(forked).manifest.parent != late);

  refs.move(RefKind::branch, "kept", {}, forked, SilentExecution());
  CHECK(refs.forks(RefKind::branch, "main").empty());
  world.push(5, "a");
  CHECK_FALSE(has_note(world.notes, forked));
  CHECK(base != late);
}

TEST_CASE("a reader does not see what is not decided yet where the store tells the time, a writer builds on it") {
  MemoryTraits traits;
  std::int64_t now_ms = 1'000'000;
  const Contest contest{std::chrono::milliseconds(50), std::chrono::milliseconds(1)};
  traits.contest = contest;
  traits.now_ms = [&] { return now_ms; };
  traits.tells_time = true;
  MemoryStore store(std::make_shared<MemoryBucket>(traits));
  Refs refs(store, contest, [&](std::chrono::milliseconds time, const std::stop_token&) { now_ms += time.count(); });
  const Digest commit = blake3("x");
  const RefEntry entry{commit, std::string(32, 'b'), no_entry_before()};
  store.create(contested_key("branches/main/", 1, entry.write, entry.before), to_text(entry));
  CHECK(refs.read(RefKind::branch, "main").number == 0);
  CHECK(refs.list(RefKind::branch).empty());
  CHECK(refs.read_to_move(RefKind::branch, "main", SilentExecution()).commit == commit);
  now_ms += 50;
  CHECK(refs.read(RefKind::branch, "main").number == 0);  // another one of its tick may have been written behind it
  now_ms += 1;
  CHECK(refs.read(RefKind::branch, "main").commit == commit);
}

TEST_CASE("that a branch stands where it should already is said only once that is decided") {
  for (const bool tells_time : {true, false}) {
    CAPTURE(tells_time);
    MemoryTraits traits;
    std::int64_t now_ms = 1'000'000;
    const Contest contest{std::chrono::milliseconds(50), std::chrono::milliseconds(10)};
    traits.contest = contest;
    traits.now_ms = [&] { return now_ms; };
    traits.tells_time = tells_time;
    MemoryStore store(std::make_shared<MemoryBucket>(traits));
    std::function<void()> meanwhile = [] {};
    std::size_t waits = 0;
    const Refs refs(store, contest, [&](std::chrono::milliseconds time, const std::stop_token&) {
      ++waits;
      meanwhile();
      now_ms += time.count();
    });
    const auto write = [&](const char* text, char id) {
      const RefEntry entry{blake3(text), std::string(32, id), no_entry_before()};
      store.create(contested_key("branches/main/", 1, entry.write, entry.before), to_text(entry));
    };
    const SilentExecution execution;
    refs.confirm(RefKind::branch, "main", refs.read_to_move(RefKind::branch, "main", execution), execution);
    CHECK(waits == 0);
    write("x", 'b');
    const RefState seen = refs.read_to_move(RefKind::branch, "main", execution);
    CHECK(seen.commit == blake3("x"));
    refs.confirm(RefKind::branch, "main", seen, execution);
    CHECK(waits == 1);
    refs.confirm(RefKind::branch, "main", seen, execution);
    CHECK(waits == (tells_time ? 1 : 2));
    // One of the same tick that comes first was still on its way.
    store.remove(contested_key("branches/main/", 1, std::string(32, 'b'), no_entry_before()));
    write("x", 'b');
    meanwhile = [&] { write("y", 'a'); };
    CHECK(fault_of([&] { refs.confirm(RefKind::branch, "main", seen, execution); }) == Fault::conflict);
  }
}

TEST_CASE("who is late already writes nothing, and a move that is broken off while it waits says that it was") {
  ContestedWorld world;
  world.push(1, "a");
  Repository repository = world.open();
  Refs refs = repository.refs();
  const Digest tip = repository.resolve("main");
  const std::size_t keys = repository.store().list("").size();
  CHECK(fault_of([&] { refs.move(RefKind::branch, "main", {}, tip, SilentExecution()); }) == Fault::conflict);
  CHECK(repository.store().list("").size() == keys);
  RecordedProgress progress;
  std::stop_source stop;
  stop.request_stop();
  const RefState before = refs.read(RefKind::branch, "main");
  CHECK(fault_of([&] {
          refs.move(RefKind::branch, "main", before, tip, Execution{1, &progress, stop.get_token()});
        }) == Fault::interrupted);
}

TEST_CASE("a repository of numbered entries is read but not moved where creation has no one winner") {
  MemoryTraits traits;
  traits.contest = Contest{std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  MemoryStore store(std::make_shared<MemoryBucket>(traits));
  Refs refs(store, std::nullopt);
  CHECK(refs.read(RefKind::branch, "main").number == 0);
  CHECK(fault_of([&] { refs.move(RefKind::branch, "main", {}, blake3("x"), SilentExecution()); }) ==
        Fault::unsupported);
  CHECK(store.list("").empty());
}

TEST_CASE("branches of a new repository are contested where the store says so, or overwrites what it should create") {
  MemoryTraits overwrites;
  overwrites.ignores_conditions = true;
  MemoryTraits contested;
  contested.contest = Contest{std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  for (const auto& [traits, expected] : {std::pair(MemoryTraits(), false), {overwrites, true}, {contested, true}}) {
    const auto bucket = std::make_shared<MemoryBucket>(traits);
    CHECK(Repository::open_or_create(std::make_unique<MemoryStore>(bucket)).refs().are_contested() == expected);
    CHECK(Repository::open_or_create(std::make_unique<MemoryStore>(bucket)).refs().are_contested() == expected);
  }
}

TEST_CASE("wdelta.json says how branches are moved, within bounds; a document that does not say means numbers") {
  const auto opened = [](const Json& more) {
    auto store = std::make_unique<MemoryStore>();
    Json json = {{"format", "wdelta-repository"}, {"version", 1}, {"id", std::string(32, 'a')}};
    json.update(more);
    store->put("wdelta.json", seal(json));
    return Repository::open_or_create(std::move(store)).refs().are_contested();
  };
  CHECK_FALSE(opened(Json::object()));
  CHECK_FALSE(opened({{"branches", "exclusive"}}));
  CHECK(opened({{"branches", "contested"}, {"settle_ms", 1}, {"tick_ms", 600'000}}));
  CHECK(fault_of([&] { opened({{"branches", "otherwise"}}); }) == Fault::unsupported);
  for (const Json& bad : {Json{{"settle_ms", 10}}, Json{{"tick_ms", 1}}, Json{{"settle_ms", 0}, {"tick_ms", 1}},
                          Json{{"settle_ms", 1}, {"tick_ms", 0}}, Json{{"settle_ms", 600'001}, {"tick_ms", 1}},
                          Json{{"settle_ms", "1"}, {"tick_ms", 1}}}) {
    Json json = bad;
    json["branches"] = "contested";
    CAPTURE(json.dump());
    CHECK(fault_of([&] { opened(json); }) == Fault::corrupt);
  }
}

TEST_CASE("contested entries that are damaged, misplaced or without the one before them are found") {
  MemoryTraits traits;
  const Contest contest{std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  traits.contest = contest;
  MemoryStore store(std::make_shared<MemoryBucket>(traits));
  Refs refs(store, contest, [](auto, const auto&) {});
  for (const char* commit : {"1", "2", "3"}) {
    refs.move(RefKind::branch, "main", refs.read(RefKind::branch, "main"), blake3(commit), SilentExecution());
  }
  const auto count_bad = [&] {
    EntryCheck entries(refs);
    int bad = 0;
    for (const Store::Listed& listed : store.list("branches/")) {
      const auto fault = fault_of([&] { entries.check(listed.key); });
      if (fault == Fault::corrupt) ++bad;
    }
    return bad;
  };
  CHECK(count_bad() == 0);
  const std::vector<Store::Listed> keys = store.list("branches/");
  REQUIRE(keys.size() == 3);
  const std::string text = get_text(store, keys[1].key, 10'000).value();
  const std::string renamed = "branches/main/0000000000000002-" + std::string(32, 'c') + keys[1].key.substr(63);
  store.put(renamed, text);
  CHECK(count_bad() == 1);
  store.remove(renamed);
  store.put("branches/main/0000000000000004", text);
  CHECK(count_bad() == 1);
  store.remove("branches/main/0000000000000004");
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
    store.put(keys[1].key, changed);
    REQUIRE(count_bad() == 1);
  }
  store.remove(keys[1].key);
  CHECK(count_bad() == 1);
  CHECK(refs.read(RefKind::branch, "main").number == 1);
  CHECK(refs.forks(RefKind::branch).size() == 1);
}

}  // namespace wdelta
