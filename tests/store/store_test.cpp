// SPDX-License-Identifier: Apache-2.0
// The contract of Store, held against every store there is.
#include "store/store.hpp"

#include "base/blake3.hpp"
#include "base/output_file.hpp"
#include "store/directory_store.hpp"
#include "store/emulators.hpp"
#include "store/store_space.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/memory_store.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <iterator>
#include <latch>
#include <map>
#include <sys/stat.h>
#include <thread>

namespace wdelta {

using testing::fault_of;
using testing::ScratchDirectory;

namespace {

constexpr std::int64_t k_coarsest_ms = 1000;  // what a store says of its time, as HTTP's Date does

#ifdef WDELTA_HAS_NETWORK
constexpr bool k_has_network = true;
#else
constexpr bool k_has_network = false;
#endif

/// A kind of store, and how to come by an empty one in a scratch directory. Another store is another row.
struct StoreKind {
  const char* name;
  std::unique_ptr<Store> (*open)(const std::filesystem::path& scratch);
};
const StoreKind k_kinds[] = {
    {"directory",
     [](const std::filesystem::path& scratch) -> std::unique_ptr<Store> {
       return std::make_unique<DirectoryStore>(scratch / "store");
     }},
    {"memory",
     [](const std::filesystem::path&) -> std::unique_ptr<Store> { return std::make_unique<testing::MemoryStore>(); }},
#ifdef WDELTA_HAS_NETWORK
    {"s3",
     [](const std::filesystem::path& scratch) -> std::unique_ptr<Store> {
       static const testing::S3Emulator emulator;  // starting one takes longer than most tests
       static int count = 0;
       return open_store("s3://bucket/" + std::to_string(++count), emulator.access(scratch / "staging"));
     }},
    {"hub",
     [](const std::filesystem::path& scratch) -> std::unique_ptr<Store> {
       static const testing::HubEmulator emulator;
       static int count = 0;
       return open_store("hf://buckets/tester/run/" + std::to_string(++count), emulator.access(scratch / "staging"));
     }},
#endif
};

enum class Which { all, exclusive };

/// Runs `body` with an empty store of every kind, or of those kinds where create() has one winner.
template <typename Body>
void for_each_store(Body body, Which which = Which::all) {
  for (const StoreKind& kind : k_kinds) {
    CAPTURE(kind.name);
    ScratchDirectory scratch;
    const auto store = kind.open(scratch.path());
    if (which == Which::all || !store->contest()) body(*store);
  }
}

std::optional<std::string> get(const Store& store, const std::string& key) {
  const auto reader = store.get(key);
  if (reader == nullptr) return std::nullopt;
  return testing::text_of(read_all(*reader));
}

std::vector<std::string> keys(const Store& store, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Store::Listed& listed : store.list(prefix)) names.push_back(listed.key);
  return names;
}

/// Runs `body(thread)` on so many threads, all let go at once.
template <typename Body>
void race(int thread_count, Body body) {
  std::latch ready(thread_count);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < thread_count; ++thread) {
    threads.emplace_back([&, thread] {
      ready.arrive_and_wait();
      body(thread);
    });
  }
}

}  // namespace

TEST_CASE("an empty store has nothing: get is null, list is empty, remove is no error") {
  for_each_store([](Store& store) {
    CHECK(store.get("a") == nullptr);
    CHECK(store.get("a/b/c") == nullptr);
    CHECK(store.list("").empty());
    CHECK(store.list("a/").empty());
    CHECK(fault_of([&] { store.remove("a/b"); }) == std::nullopt);
    CHECK(get_text(store, "a", 10) == std::nullopt);
  });
}

TEST_CASE("what was put comes back whole, and a second put replaces it") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for_each_store([&](Store& store) {
    for (const std::string key : {"a", "b/c", "b/d/e/f", "größe/with space", "objects/ab/abcd.safetensors"}) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, std::size_t{3}}) {
        const std::string bytes = testing::text_of(testing::random_bytes(random, size));
        store.put(key, bytes);
        CHECK(get(store, key) == bytes);
        CHECK(get_text(store, key, size) == bytes);
      }
      CHECK(fault_of([&] { get_text(store, key, 2); }) == Fault::corrupt);
    }
  });
}

TEST_CASE("a reader of a key goes on reading what it opened when the key is put again or removed") {
  for_each_store([](Store& store) {
    for (const bool remove : {false, true}) {
      store.put("a", "before");
      const auto reader = store.get("a");
      if (remove) {
        store.remove("a");
      } else {
        store.put("a", "behind that");
      }
      CHECK(testing::text_of(read_all(*reader)) == "before");
    }
  });
}

TEST_CASE("whoever reads while others put sees one of the values whole") {
  for_each_store([](Store& store) {
    const auto value = [](int thread) { return std::string(5'000 + 1'000 * thread, static_cast<char>('a' + thread)); };
    store.put("key", value(0));
    std::atomic<int> torn = 0;
    race(4, [&](int thread) {
      for (int i = 0; i < 25; ++i) {
        if (thread < 2) {
          store.put("key", value(thread));
        } else {
          const auto seen = get(store, "key");
          if (seen != value(0) && seen != value(1)) ++torn;
        }
      }
    });
    CHECK(torn == 0);
  });
}

TEST_CASE("create keeps the first value and says so exactly once") {
  for_each_store(
      [](Store& store) {
        CHECK(store.create("refs/1", "first"));
        CHECK_FALSE(store.create("refs/1", "second"));
        CHECK(get(store, "refs/1") == "first");
        store.put("refs/2", "put");
        CHECK_FALSE(store.create("refs/2", "created"));
        store.remove("refs/2");
        CHECK(store.create("refs/2", "created"));
      },
      Which::exclusive);
}

TEST_CASE("where create has many winners it says so, and what is created is there at once") {
  int count = 0;
  for_each_store([&](Store& store) {
    if (!store.contest()) return;
    ++count;
    CHECK(store.contest()->settle.count() > 0);
    store.put("before", "x");
    CHECK(store.create("refs/1", "first"));
    CHECK(store.create("refs/1", "second"));
    CHECK(keys(store, "") == std::vector<std::string>{"before", "refs/1"});
    CHECK(get(store, "refs/1") == "second");
  });
  CHECK(count == (k_has_network ? 1 : 0));
}

TEST_CASE("of eight threads that create one key exactly one wins, and its bytes are there") {
  for_each_store(
      [](Store& store) {
        for (int round = 0; round < 50; ++round) {
          const std::string key = "branches/main/" + std::to_string(round);
          std::atomic<int> winners = 0;
          std::atomic<int> winner = -1;
          race(8, [&](int thread) {
            if (!store.create(key, "by " + std::to_string(thread))) return;
            ++winners;
            winner = thread;
          });
          REQUIRE(winners == 1);
          REQUIRE(get(store, key) == "by " + std::to_string(winner));
        }
        CHECK(store.list("").size() == 50);
      },
      Which::exclusive);
}

TEST_CASE("list names the keys below a prefix, in order, with their sizes") {
  for_each_store([](Store& store) {
    std::map<std::string, std::string> put;
    for (const std::string key : {"b/2", "a", "b/10", "b/c/1", "bc/1", "b/c-/1", "c/x", "b/c.json", "b/größe"}) {
      put[key] = std::string(key.size(), 'x');
      store.put(key, put[key]);
    }
    for (const std::string prefix : {"", "b/", "b/c/", "c/", "none/", "bc/"}) {
      CAPTURE(prefix);
      std::vector<std::string> expected;
      for (const auto& [key, value] : put) {
        if (key.starts_with(prefix)) expected.push_back(key);
      }
      CHECK(keys(store, prefix) == expected);
    }
    for (const Store::Listed& listed : store.list("")) CHECK(listed.size_bytes == put[listed.key].size());
    store.remove("b/2");
    CHECK(store.get("b/2") == nullptr);
    CHECK(keys(store, "b/").front() == "b/10");
  });
}

TEST_CASE("list says when each key was written, in the order in which they were") {
  for_each_store([](Store& store) {
    for (const char* key : {"c", "a", "b"}) {
      store.put(key, "x");
      store.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::map<std::string, std::int64_t> written_ms;
    for (const Store::Listed& listed : store.list("")) written_ms[listed.key] = listed.written_ms;
    CHECK(written_ms["c"] < written_ms["a"]);
    CHECK(written_ms["a"] < written_ms["b"]);
    const Store::TimedListing timed = store.list_with_time("");
    CHECK(timed.keys.size() == 3);
    if (timed.now_ms) CHECK(*timed.now_ms + k_coarsest_ms >= written_ms["b"]);
  });
}

TEST_CASE("what is older than a time is removed, what is not stays") {
  for_each_store([](Store& store) {
    store.put("a", "x");
    const std::int64_t written_s = store.list("").front().written_ms / 1000;
    CHECK_FALSE(store.remove_older("a", written_s));
    CHECK(get(store, "a") == "x");
    CHECK(store.remove_older("a", written_s + 1));
    CHECK(store.get("a") == nullptr);
    CHECK_FALSE(store.remove_older("a", written_s + 1));
  });
}

TEST_CASE("a staged object is no key before it is kept, and one that is dropped never was") {
  for_each_store([](Store& store) {
    {
      OutputFile staged = store.stage();
      staged.append("large");
      const OutputFile beside(store.staging_path());
      CHECK(store.list("").empty());
      store.put_staged("objects/ab/x", std::move(staged));
      CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/x"});
      OutputFile dropped = store.stage();
      dropped.append("dropped");
    }
    CHECK(get(store, "objects/ab/x") == "large");
    CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/x"});
    OutputFile again = store.stage();
    again.append("replaced");
    store.put_staged("objects/ab/x", std::move(again));
    CHECK(get(store, "objects/ab/x") == "replaced");
  });
}

TEST_CASE("bytes at hand are kept whole, and are found and fetched under their key") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for_each_store([&](Store& store) {
    const testing::SilentExecution execution(2);
    for (const std::size_t size : {std::size_t{1}, std::size_t{1} << 20 | 99}) {
      const MemoryReader bytes(testing::random_bytes(random, size), "file");
      CHECK_FALSE(store.has({"objects/ab/x", size}));
      store.put_bytes("objects/ab/x", bytes, execution);
      CHECK(get(store, "objects/ab/x") == testing::text_of(read_all(bytes)));
      CHECK_FALSE(store.has({"objects/ab/x", size + 1}));
      ScratchDirectory scratch;
      OutputFile output(scratch / "out");
      const auto digest = store.get_into(output, {"objects/ab/x", size}, scratch / "incoming", execution);
      CHECK(digest.has_value() == store.is_remote());
      if (digest) {
        output.commit(Overwrite::yes, Durability::cached);
        CHECK(digest == blake3(read_all(bytes)));
        CHECK(testing::get_file(scratch / "out") == testing::text_of(read_all(bytes)));
        OutputFile other(scratch / "other");
        CHECK(fault_of([&] { store.get_into(other, {"objects/ab/x", size + 1}, {}, execution); }) == Fault::corrupt);
      }
      OutputFile none(scratch / "none");
      CHECK_FALSE(store.get_into(none, {"objects/ab/none", size}, {}, execution).has_value());
      store.remove("objects/ab/x");
    }
  });
}

TEST_CASE("of many keys those are removed that are older than a time") {
  for_each_store([](Store& store) {
    std::vector<std::string> keys_put;
    for (int i = 0; i < 7; ++i) keys_put.push_back("objects/" + std::to_string(i) + "/x");
    for (const std::string& key : keys_put) store.put(key, "x");
    store.put("objects/other", "x");
    const std::int64_t written_s = store.list("").back().written_ms / 1000;
    CHECK(store.remove_all_older(keys_put, written_s - 60).empty());
    keys_put.push_back("objects/none");
    CHECK(store.remove_all_older(keys_put, written_s + 2).size() == 7);
    CHECK(keys(store, "") == std::vector<std::string>{"objects/other"});
  });
}

TEST_CASE("a key that is no place is refused by every call that takes one") {
  for_each_store([](Store& store) {
    for (const std::string key : {"", "/x", "../x", "a/../x", "a//x", "a/", ".", ".wdelta/x", "a\\x", "\xff"}) {
      CAPTURE(key);
      CHECK(fault_of([&] { store.get(key); }) == Fault::corrupt);
      CHECK(fault_of([&] { store.put(key, "x"); }) == Fault::corrupt);
      CHECK(fault_of([&] { store.create(key, "x"); }) == Fault::corrupt);
      CHECK(fault_of([&] { store.remove(key); }) == Fault::corrupt);
      CHECK(fault_of([&] { store.put_staged(key, store.stage()); }) == Fault::corrupt);
    }
    CHECK(store.list("").empty());
  });
}

TEST_CASE("a prefix that leads out of the store lists nothing of what is there") {
  for (const StoreKind& kind : k_kinds) {
    CAPTURE(kind.name);
    ScratchDirectory scratch;
    const auto store = kind.open(scratch.path());
    store->put("a", "x");
    testing::put_file(scratch / "outside/secret", "x");
    for (const std::string& prefix : {std::string("../"), std::string("../outside/"), std::string("a/../../outside/"),
                                      (scratch / "outside").string() + "/"}) {
      CAPTURE(prefix);
      std::vector<Store::Listed> listed;
      fault_of([&] { listed = store->list(prefix); });
      CHECK(listed.empty());
    }
  }
}

TEST_CASE("a key below another key, or above one, is absent like any other") {
  for_each_store([](Store& store) {
    store.put("a/b", "x");
    std::optional<std::string> above;
    std::optional<std::string> below;
    CHECK(fault_of([&] { above = get(store, "a"); }) == std::nullopt);
    CHECK(fault_of([&] { below = get(store, "a/b/c"); }) == std::nullopt);
    CHECK_FALSE(above.has_value());
    CHECK_FALSE(below.has_value());
  });
}

TEST_CASE("a store that says how much room it has is held to it, before and after it is made") {
  for_each_store([](Store& store) {
    for (int round = 0; round < 2; ++round) {
      const auto free = store.free_bytes();
      CHECK(fault_of([&] { require_space(store, 0); }) == std::nullopt);
      if (free) CHECK(fault_of([&] { require_space(store, *free + (std::uint64_t{1} << 40)); }) == Fault::local);
      store.put("key", "x");
    }
  });
}

TEST_CASE("temporary files that writers left in a directory store are no keys") {
  ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  store.put("objects/ab/x", "x");
  for (const char* name :
       {".x.wdelta-a1b2c3", "objects/ab/.x.wdelta-a1b2c3", "staging/.object.wdelta-a1b2c3", "staging/object"}) {
    testing::put_file(scratch / "store" / name, "left");
  }
  CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/x"});
}

// Where others of a group make directories, they appear under hidden names, and are gone when one looks into them.
TEST_CASE("what lies in a hidden directory of a directory store is no key, and none of its leftovers") {
  ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  store.put("objects/ab/x", "x");
  const auto theirs = {"objects/.snapshot/readme", "objects/.snapshot/ab/.x.wdelta-a1b2c3", ".backup/objects/ab/y"};
  for (const char* place : theirs) testing::put_file(scratch / "store" / place, "theirs");
  std::filesystem::create_directory_symlink(scratch / "store/objects/.snapshot", scratch / "store/objects/.latest");
  CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/x"});
  CHECK(keys(store, "objects/") == std::vector<std::string>{"objects/ab/x"});
  store.remove_leftovers(INT64_MAX, [](const std::string&) { return true; });
  for (const char* place : theirs) CHECK(std::filesystem::exists(scratch / "store" / place));
}

TEST_CASE("a directory that a writer was making when it was killed is a leftover like a file") {
  const ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  store.put("objects/ab/x", "x");
  const auto left = {"objects/.cd.wdelta-a1b2c3", "objects/ab/.y.wdelta-a1b2c3"};
  std::filesystem::create_directory(scratch / "store" / *left.begin());
  testing::put_file(scratch / "store" / *std::next(left.begin()), "left");
  store.remove_leftovers(0, [](const std::string&) { return true; });
  for (const char* place : left) CHECK(std::filesystem::exists(scratch / "store" / place));
  store.remove_leftovers(INT64_MAX, [](const std::string&) { return true; });
  for (const char* place : left) CHECK_FALSE(std::filesystem::exists(scratch / "store" / place));
  CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/x"});
}

TEST_CASE("what a removal that was killed had moved aside comes back, and nothing else that lies there") {
  const ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  store.put("objects/ab/there", "newer");
  const auto not_aside = {"removed-0123456789abcdef", "removed-0123456789abcdef-%2", "removed-0123456789abcdef-..%2Fa",
                          "removed-0123-a", "object"};
  const auto aside = [&](const char* name) { testing::put_file(scratch / "store/staging" / name, "aside"); };
  aside("removed-0123456789abcdef-objects%2Fab%2Fgone.safetensors");
  aside("removed-0123456789abcdef-objects%2Fab%2Fthere");
  for (const char* name : not_aside) aside(name);
  CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/there"});
  store.remove_leftovers(INT64_MAX, [](const std::string&) { return true; });
  CHECK(std::filesystem::exists(scratch / "store/staging/removed-0123456789abcdef-objects%2Fab%2Fgone.safetensors"));
  for (const char* name : not_aside) {
    CHECK_FALSE(std::filesystem::exists(scratch / "store/staging" / name));
    aside(name);
  }
  store.bring_back();
  CHECK(keys(store, "") == std::vector<std::string>{"objects/ab/gone.safetensors", "objects/ab/there"});
  CHECK(get_text(store, "objects/ab/gone.safetensors", 100) == "aside");
  CHECK(get_text(store, "objects/ab/there", 100) == "newer");
  for (const char* name : not_aside) CHECK(std::filesystem::remove(scratch / "store/staging" / name));
  CHECK(std::filesystem::is_empty(scratch / "store/staging"));
}

// A listing without it would make gc take what it needs for garbage.
TEST_CASE("a directory store's listing passes over no file that it cannot look at") {
  const ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  store.put("a/one", "1");
  const std::filesystem::path in_circles = scratch / "store/a/two";
  std::filesystem::create_symlink("two", in_circles);
  CHECK(fault_of([&] { store.list("a/"); }) == Fault::local);
  std::filesystem::remove(in_circles);
  std::filesystem::create_symlink("nothing", in_circles);
  CHECK(fault_of([&] { store.list("a/"); }) == Fault::corrupt);
  std::filesystem::remove(in_circles);
  mkfifo(in_circles.c_str(), 0600);
  CHECK(fault_of([&] { store.list(""); }) == Fault::corrupt);
  std::filesystem::remove(in_circles);
  // What get() finds behind a symlink is listed.
  std::filesystem::create_directory(scratch / "elsewhere");
  std::filesystem::rename(scratch / "store/a/one", scratch / "elsewhere/one");
  std::filesystem::create_symlink(scratch / "elsewhere", scratch / "store/b");
  std::filesystem::create_symlink(scratch / "elsewhere/one", scratch / "store/a/one");
  CHECK(store.list("").size() == 2);
  CHECK(store.list("b/").size() == 1);
  std::filesystem::create_symlink("..", scratch / "store/a/up");
  std::filesystem::create_symlink(".", scratch / "store/here");
  CHECK(store.list("").size() == 2);
}

TEST_CASE("symlinks that double what lies behind them at each level are listed in no more time than they are many") {
  ScratchDirectory scratch;
  DirectoryStore store(scratch / "store");
  constexpr int k_levels = 24;  // four million ways to the last one from the first, sixteen million in all
  const auto level = [&](int i) { return scratch / "store/branches" / fmt::format("d{:02}", i); };
  for (int i = 0; i < k_levels; ++i) store.put(fmt::format("branches/d{:02}/1", i), "x");
  for (int i = 0; i + 1 < k_levels; ++i) {
    for (const char* name : {"a", "b"}) std::filesystem::create_directory_symlink(level(i + 1), level(i) / name);
  }
  const std::vector<Store::Listed> keys = store.list("branches/");
  for (int i = 0; i < k_levels; ++i) {
    const std::string key = fmt::format("branches/d{:02}/1", i);
    CHECK(std::ranges::find(keys, key, &Store::Listed::key) != keys.end());
  }
  CHECK(keys.size() < 2 * k_levels * k_levels);
}

TEST_CASE("a location names a directory as a path or a file URL, and other schemes are unsupported") {
  ScratchDirectory scratch;
  const std::string plain = (scratch / "with space").string();
  const std::string encoded = (scratch / "with%20sp%61ce").string();
  for (const std::string& location : {plain, "file://" + plain, "file://" + encoded, "file://localhost" + encoded}) {
    const auto store = open_store(location);
    store->put("key", location);
    CHECK(testing::get_file(scratch / "with space/key") == location);
  }
  CHECK(directory_named(encoded) == std::filesystem::path(encoded));
  CHECK(directory_named("s3://bucket/x") == std::nullopt);
  for (const char* location : {"file://relative", "file://", "file://./x", "file://host/x", "file://localhost",
                               "file:///a%", "file:///a%2", "file:///%zz", "file:///a%00b"}) {
    CAPTURE(location);
    CHECK(fault_of([&] { open_store(location); }) == Fault::usage);
  }
  for (const char* location : {"s3://", "s3:///a", "s3://a b", "s3://bucket/../x", "s3://bucket//x"}) {
    CAPTURE(location);
    CHECK(has_scheme(location));
    CHECK(fault_of([&] { open_store(location); }) == (k_has_network ? Fault::usage : Fault::unsupported));
  }
  for (const char* location : {"https://host/x", "x://", "hfs://buckets/a/b"}) {
    CAPTURE(location);
    CHECK(has_scheme(location));
    CHECK(fault_of([&] { open_store(location); }) == Fault::unsupported);
  }
  for (const char* location : {"/a", "a", "./a://b", "a/b://c", "://a", "a:/b", ""}) {
    CAPTURE(location);
    CHECK_FALSE(has_scheme(location));
  }
}

}  // namespace wdelta
