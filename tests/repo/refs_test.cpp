// SPDX-License-Identifier: Apache-2.0
#include "repo/refs.hpp"

#include "base/blake3.hpp"
#include "base/json.hpp"
#include "repo/entry_check.hpp"
#include "repo/ref_entry.hpp"
#include "store/directory_store.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/memory_store.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <latch>
#include <memory>
#include <thread>

namespace wdelta {

using testing::fault_of;

namespace {

constexpr RefKind k_kinds[] = {RefKind::branch, RefKind::tag};

RefState read_ref(Store& store, RefKind kind, const std::string& name) { return Refs(store, {}).read(kind, name); }
std::map<std::string, RefState> list_refs(Store& store, RefKind kind) { return Refs(store, {}).list(kind); }
void move_ref(Store& store, RefKind kind, const std::string& name, const RefState& before, const Digest& commit) {
  Refs(store, {}).move(kind, name, before, commit, testing::SilentExecution());
}

std::string key(RefKind kind, const std::string& name, std::string_view number) {
  return (kind == RefKind::branch ? "branches/" : "tags/") + name + "/" + std::string(number);
}

}  // namespace

TEST_CASE("names of branches and tags keep to the grammar") {
  for (const std::string name : std::initializer_list<std::string>{
           "main", "a", "_", "0", "v1.0", "feature/x-y", "a/b/c/d", "A_b-c.d", "1234567890", "123456789012345",
           "12345678901234567", std::string(63, 'a'), std::string(64, 'A'), "a..b", "x-", "x.", "0000000000000001a",
           "main.lock", "HEAD"}) {
    CAPTURE(name);
    CHECK(why_not_a_ref_name(name) == nullptr);
  }
  CHECK(why_not_a_ref_name(std::string(200, 'a')) == nullptr);
  std::vector<std::string> refused = {"",
                                      "/",
                                      "/a",
                                      "a/",
                                      "a//b",
                                      "-a",
                                      ".a",
                                      "..",
                                      "a/../b",
                                      "a/.b",
                                      "a/-b",
                                      "a b",
                                      "a~b",
                                      "a@b",
                                      "a:b",
                                      "a\\b",
                                      "a*",
                                      "größe",
                                      "a\n",
                                      "0000000000000001",
                                      "a/1234567890123456",
                                      "1234567890123456/a",
                                      std::string(64, 'a'),
                                      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                                      std::string(201, 'a'),
                                      std::string("a\0b", 3)};
  for (const std::string& name : refused) {
    CAPTURE(name);
    CHECK(why_not_a_ref_name(name) != nullptr);
  }
  // All of ASCII, alone and behind a letter.
  for (int code = 0; code < 128; ++code) {
    const char c = static_cast<char>(code);
    const bool word = std::isalnum(code) || c == '_';
    CHECK((why_not_a_ref_name(std::string(1, c)) == nullptr) == word);
    CHECK((why_not_a_ref_name(std::string("a") + c) == nullptr) == (word || c == '-' || c == '.'));
  }
}

TEST_CASE("a ref stands where it was moved last, and refs do not disturb each other") {
  testing::ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  for (const RefKind kind : k_kinds) {
    CHECK(read_ref(store, kind, "main").number == 0);
    CHECK(list_refs(store, kind).empty());
    for (const std::string name : {"main", "main/next", "mai", "main2"}) {
      for (int i = 1; i <= 12; ++i) {
        const RefState before = read_ref(store, kind, name);
        CHECK(before.number == static_cast<std::uint64_t>(i - 1));
        move_ref(store, kind, name, before, blake3(name + std::to_string(i)));
      }
    }
    for (const auto& [name, state] : list_refs(store, kind)) {
      CHECK(state.number == 12);
      CHECK(state.commit == blake3(name + "12"));
      CHECK(read_ref(store, kind, name).commit == state.commit);
    }
    CHECK(list_refs(store, kind).size() == 4);
  }
}

TEST_CASE("a ref whose entries have a gap is corrupt") {
  for (const RefKind kind : k_kinds) {
    testing::ScratchDirectory scratch;
    DirectoryStore store(scratch / "store");
    for (int i = 1; i <= 4; ++i)
      move_ref(store, kind, "main", read_ref(store, kind, "main"), blake3(std::to_string(i)));
    const std::string folder = kind == RefKind::branch ? "branches/main/" : "tags/main/";
    CHECK(read_ref(store, kind, "main").commit == blake3("4"));
    store.remove(folder + "0000000000000004");
    CHECK(read_ref(store, kind, "main").commit == blake3("3"));
    store.remove(folder + "0000000000000002");
    CHECK(fault_of([&] { read_ref(store, kind, "main"); }) == Fault::corrupt);
    CHECK(fault_of([&] { list_refs(store, kind); }) == Fault::corrupt);
  }
}

TEST_CASE("an entry that a list shows twice counts once") {
  testing::MemoryTraits traits;
  traits.lists_twice = true;
  testing::MemoryStore store(std::make_shared<testing::MemoryBucket>(traits));
  for (const RefKind kind : k_kinds) {
    for (int i = 1; i <= 3; ++i)
      move_ref(store, kind, "main", read_ref(store, kind, "main"), blake3(std::to_string(i)));
    CHECK(read_ref(store, kind, "main").number == 3);
    CHECK(list_refs(store, kind).at("main").commit == blake3("3"));
  }
}

TEST_CASE("moving a ref from where it no longer stands is a conflict and changes nothing") {
  testing::ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  for (const RefKind kind : k_kinds) {
    const RefState none = read_ref(store, kind, "main");
    move_ref(store, kind, "main", none, blake3("first"));
    CHECK(fault_of([&] { move_ref(store, kind, "main", none, blake3("second")); }) == Fault::conflict);
    CHECK(read_ref(store, kind, "main").commit == blake3("first"));
    CHECK(fault_of([&] { move_ref(store, kind, "../x", none, blake3("x")); }) == Fault::usage);
  }
}

TEST_CASE("of eight who move a ref at once exactly one wins, and the others are told of a conflict") {
  testing::ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  for (int round = 0; round < 20; ++round) {
    const RefState before = read_ref(store, RefKind::branch, "main");
    std::atomic<int> conflicts = 0;
    std::atomic<int> winner = -1;
    std::latch ready(8);
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&, thread] {
          ready.arrive_and_wait();
          const auto fault = fault_of([&] {
            move_ref(store, RefKind::branch, "main", before, blake3(std::to_string(thread)));
            winner = thread;
          });
          if (fault == Fault::conflict) ++conflicts;
        });
      }
    }
    REQUIRE(conflicts == 7);
    const RefState after = read_ref(store, RefKind::branch, "main");
    REQUIRE(after.number == before.number + 1);
    REQUIRE(after.commit == blake3(std::to_string(winner)));
  }
}

TEST_CASE("a ref that was deleted is not there until it is made again, and what it named stays known") {
  const Contest contest{std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  for (const bool is_contested : {false, true}) {
    testing::MemoryTraits traits;
    if (is_contested) traits.contest = contest;
    std::int64_t now_ms = 0;
    traits.now_ms = [&] { return now_ms += 10; };
    testing::MemoryStore store(std::make_shared<testing::MemoryBucket>(traits));
    Refs refs(store, traits.contest, [](auto, const auto&) {});
    const testing::SilentExecution execution;
    for (const RefKind kind : k_kinds) {
      CAPTURE(is_contested);
      CAPTURE(kind == RefKind::tag);
      refs.move(kind, "kept", {}, blake3("kept"), execution);
      refs.move(kind, "gone", {}, blake3("first"), execution);
      refs.move(kind, "gone", refs.read(kind, "gone"), blake3("second"), execution);
      const RefState before = refs.read_to_move(kind, "gone", execution);
      refs.remove(kind, "gone", before, execution);
      const RefState deleted = refs.read_to_move(kind, "gone", execution);
      CHECK(deleted.number == 3);
      CHECK_FALSE(deleted.commit);
      CHECK_FALSE(refs.read(kind, "gone").commit);
      CHECK(refs.list(kind).size() == 1);
      CHECK(refs.list(kind).contains("kept"));
      // Nobody who saw it before moves it now, or deletes it once more.
      CHECK(fault_of([&] { refs.move(kind, "gone", before, blake3("late"), execution); }) == Fault::conflict);
      CHECK(fault_of([&] { refs.remove(kind, "gone", before, execution); }) == Fault::conflict);
      std::map<Digest, bool> is_past;
      for (const NamedCommit& named : refs.ever_named(kind)) is_past[named.commit] = named.until_ms.has_value();
      CHECK(is_past ==
            std::map<Digest, bool>{{blake3("first"), true}, {blake3("second"), true}, {blake3("kept"), false}});
      CHECK(refs.forks(kind).empty());
      EntryCheck entries(refs);
      std::size_t deletions = 0;
      for (const Store::Listed& listed : store.list(ref_folder(kind))) {
        deletions += entries.check(listed.key) ? 0 : 1;
      }
      CHECK(deletions == 1);
      refs.move(kind, "gone", deleted, blake3("third"), execution);
      CHECK(refs.read(kind, "gone").commit == blake3("third"));
      CHECK(refs.read(kind, "gone").number == 4);
      CHECK(refs.list(kind).size() == 2);
    }
  }
}

TEST_CASE("of those who move a ref and who delete it at the same time, one wins") {
  for (int round = 0; round < 50; ++round) {
    testing::ScratchDirectory scratch;
    DirectoryStore store(scratch / "store");
    move_ref(store, RefKind::branch, "main", {}, blake3("0"));
    const RefState before = read_ref(store, RefKind::branch, "main");
    std::atomic<int> won = 0;
    std::latch start(4);
    std::vector<std::thread> writers;
    for (int i = 1; i <= 4; ++i) {
      writers.emplace_back([&, i] {
        Refs refs(store, {});
        const testing::SilentExecution execution;
        start.arrive_and_wait();
        const auto fault = fault_of([&] {
          if (i % 2 == 0) return refs.remove(RefKind::branch, "main", before, execution);
          refs.move(RefKind::branch, "main", before, blake3(std::to_string(i)), execution);
        });
        if (!fault)
          won += i;
        else
          CHECK(fault == Fault::conflict);
      });
    }
    for (std::thread& writer : writers) writer.join();
    const RefState after = read_ref(store, RefKind::branch, "main");
    REQUIRE(after.number == 2);
    REQUIRE(won > 0);
    REQUIRE(after.commit == (won % 2 == 0 ? std::nullopt : std::optional(blake3(std::to_string(won)))));
  }
}

TEST_CASE("an entry with any byte flipped or cut is refused as corrupt by all who read it") {
  testing::ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  move_ref(store, RefKind::branch, "main", {}, blake3("x"));
  const std::string entry = key(RefKind::branch, "main", "0000000000000001");
  const std::string text = get_text(store, entry, 10'000).value();
  REQUIRE(fault_of([&] { read_ref_entry(store, entry); }) == std::nullopt);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
    for (const std::string& damaged : {changed, text.substr(0, at)}) {
      testing::put_file(scratch / "store" / entry, damaged);
      REQUIRE(fault_of([&] { read_ref_entry(store, entry); }) == Fault::corrupt);
      REQUIRE(fault_of([&] { read_ref(store, RefKind::branch, "main"); }) == Fault::corrupt);
      REQUIRE(fault_of([&] { list_refs(store, RefKind::branch); }) == Fault::corrupt);
    }
  }
}

TEST_CASE("sealed entries of another form are refused") {
  testing::ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  const std::string entry = key(RefKind::tag, "v1", "0000000000000001");
  const auto with = [&](const Json& json) {
    store.put(entry, seal(json));
    return fault_of([&] { read_ref_entry(store, entry); });
  };
  const std::string id = blake3("x").hex();
  CHECK(with({{"format", "wdelta-entry"}, {"version", 1}, {"commit", id}, {"write", "w"}}) == std::nullopt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 1}, {"commit", id}}) == Fault::corrupt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 1}, {"commit", "x"}, {"write", "w"}}) == Fault::corrupt);
  CHECK(with({{"format", "wdelta-commit"}, {"version", 1}, {"commit", id}, {"write", "w"}}) == Fault::corrupt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 3}, {"commit", id}, {"write", "w"}}) == Fault::unsupported);
  // What says that it was deleted is of version 2.
  CHECK(with({{"format", "wdelta-entry"}, {"version", 1}, {"commit", nullptr}, {"write", "w"}}) == Fault::corrupt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 2}, {"commit", nullptr}, {"write", "w"}}) == std::nullopt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 2}, {"commit", id}, {"write", "w"}}) == std::nullopt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 2}, {"commit", false}, {"write", "w"}}) == Fault::corrupt);
  CHECK(with({{"format", "wdelta-entry"}, {"version", 2}, {"write", "w"}}) == Fault::corrupt);
}

}  // namespace wdelta
