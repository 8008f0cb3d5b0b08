// SPDX-License-Identifier: Apache-2.0
// The laws of branches under racing writers, on stores with and without exclusive creation, in virtual time.
#include "repo/contested.hpp"

#include "base/blake3.hpp"
#include "repo/ref_entry.hpp"
#include "repo/refs.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/memory_store.hpp"
#include "testing/random.hpp"
#include "testing/virtual_clock.hpp"

#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>

namespace wdelta {

using testing::MemoryBucket;
using testing::MemoryStore;
using testing::MemoryTraits;
using testing::Reply;

namespace {

constexpr std::int64_t k_settle_ms = 50;
constexpr int k_writers = 16;
constexpr int k_rounds = 20;
constexpr int k_readers = 4;

enum class Entries { numbered, contested };

struct RaceTraits {
  Entries entries = Entries::contested;
  std::int64_t longest_hidden_ms = 0;
  int seldom_hidden_longer = 0;  ///< of a hundred entries, so many are hidden for up to 40 settle times
  int unsure_replies = 0;        ///< of a hundred
  int killed = 0;                ///< of a hundred writers, while they wait
  std::int64_t tick_ms = 1;
  bool tells_time = false;
};

/// Writers and readers of branch main, each a client of its own.
class Race {
 public:
  explicit Race(const RaceTraits& traits) : traits_(traits), random_(testing::seed()) {
    MemoryTraits store;
    store.contest = contest();
    store.tells_time = traits.tells_time;
    store.now_ms = [this] { return clock_.now_ms() / traits_.tick_ms * traits_.tick_ms; };
    store.travel = [this] { clock_.sleep(up_to(7)); };
    store.hidden_ms = [this](const std::string&) {
      return happens(traits_.seldom_hidden_longer) ? up_to(40 * k_settle_ms) : up_to(traits_.longest_hidden_ms);
    };
    store.reply = [this](const std::string&) {
      constexpr Reply k_unsure[] = {Reply::lost, Reply::repeated, Reply::refused};
      return happens(traits_.unsure_replies) ? k_unsure[up_to(2)] : Reply::arrives;
    };
    bucket_ = std::make_shared<MemoryBucket>(store);
  }

  void run() {
    clock_.run(k_writers + k_readers, [this](int thread) { thread < k_writers ? write(thread) : read(); });
    clock_.sleep(100 * k_settle_ms);  // whatever was hidden is shown
  }

  /// The commits that count, oldest first, found without the library's own rule.
  std::vector<Digest> history() {
    MemoryStore store(bucket_);
    std::map<std::string, std::pair<std::int64_t, std::string>> first;  // by number and entry before
    for (const Store::Listed& listed : store.list("branches/main/")) {
      const std::string last = listed.key.substr(14);
      if (last.ends_with("-withdrawn")) continue;
      const std::string place = traits_.entries == Entries::contested ? last.substr(0, 17) + last.substr(50) : last;
      const auto [found, is_new] = first.try_emplace(place, listed.written_ms, listed.key);
      found->second = std::min(found->second, {listed.written_ms, listed.key});
    }
    std::vector<Digest> commits;
    std::string before(32, '0');
    for (std::uint64_t number = 1;; ++number) {
      const std::string digits = fmt_number(number);
      const auto found = first.find(traits_.entries == Entries::contested ? digits + "-" + before : digits);
      if (found == first.end()) return commits;
      const RefEntry entry = read_ref_entry(store, found->second.second);
      commits.push_back(entry.commit.value());
      before = entry.write;
    }
  }

  /// The commits of the forks that are shown, and of what these were built on.
  std::set<Digest> shown_forks() {
    MemoryStore store(bucket_);
    std::map<std::string, RefEntry> entries;
    std::map<Digest, std::string> write_of;
    for (const Store::Listed& listed : store.list("branches/main/")) {
      const RefEntry entry = read_ref_entry(store, listed.key);
      write_of[entry.commit.value()] = entry.write;
      entries[entry.write] = entry;
    }
    std::set<Digest> shown;
    for (const Fork& fork : refs(store).forks(RefKind::branch)) {
      for (std::string write = write_of[fork.commit]; entries.contains(write); write = entries[write].before)
        shown.insert(entries[write].commit.value());
    }
    return shown;
  }

  std::set<Digest> targets() {
    MemoryStore store(bucket_);
    std::set<Digest> named;
    for (const NamedCommit& each : refs(store).ever_named(RefKind::branch)) named.insert(each.commit);
    return named;
  }

  std::optional<Contest> contest() const {
    if (traits_.entries == Entries::numbered) return std::nullopt;
    return Contest{std::chrono::milliseconds(k_settle_ms), std::chrono::milliseconds(traits_.tick_ms)};
  }
  Refs refs(Store& store) {
    return {store, contest(), [this](std::chrono::milliseconds time, const std::stop_token&) {
              if (happens(traits_.killed)) throw Error(Fault::interrupted, "", "killed by the test");
              clock_.sleep(time.count());
            }};
  }

  std::set<Digest> succeeded, told, unknown;
  std::vector<Digest> read_commits;
  int not_seen_after_success = 0;
  int went_back = 0;

 private:
  static std::string fmt_number(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(16 - digits.size(), '0') + digits;
  }
  std::int64_t up_to(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random_); }
  bool happens(int of_a_hundred) { return up_to(99) < of_a_hundred; }

  void write(int writer) {
    MemoryStore store(bucket_);
    Refs refs = this->refs(store);
    for (int round = 0; round < k_rounds; ++round) {
      const Digest commit = blake3(std::to_string(writer) + "/" + std::to_string(round));
      try {
        const RefState before = refs.read_to_move(RefKind::branch, "main", execution_);
        clock_.sleep(up_to(40));
        refs.move(RefKind::branch, "main", before, commit, execution_);
        succeeded.insert(commit);
        if (refs.read(RefKind::branch, "main").number <= before.number) ++not_seen_after_success;
      } catch (const Error& error) {
        (error.fault() == Fault::conflict ? told : unknown).insert(commit);
      }
      clock_.sleep(up_to(100));
    }
  }

  void read() {
    MemoryStore store(bucket_);
    const Refs refs = this->refs(store);
    std::uint64_t number = 0;
    for (int i = 0; i < 100; ++i) {
      const RefState state = refs.read(RefKind::branch, "main");
      if (state.number < number) ++went_back;
      number = state.number;
      if (state.commit) read_commits.push_back(*state.commit);
      clock_.sleep(up_to(30));
    }
  }

  RaceTraits traits_;
  testing::VirtualClock clock_;
  std::mt19937_64 random_;
  std::shared_ptr<MemoryBucket> bucket_;
  testing::SilentExecution execution_;
};

std::set<Digest> set_of(const std::vector<Digest>& digests) { return {digests.begin(), digests.end()}; }

std::size_t count_not_in(const std::set<Digest>& of, const std::set<Digest>& in) {
  return static_cast<std::size_t>(std::ranges::count_if(of, [&](const Digest& each) { return !in.contains(each); }));
}

std::size_t count_in(const std::set<Digest>& of, const std::set<Digest>& in) {
  return of.size() - count_not_in(of, in);
}

}  // namespace

TEST_CASE("racing writers: whoever reported success is in the history, every loser was told, nothing is lost") {
  CAPTURE(testing::seed());
  std::vector<RaceTraits> races;
  for (const bool tells_time : {true, false}) {
    for (const int unsure : {0, 30}) {
      races.push_back({Entries::numbered, 0, 0, unsure, 0, 1, tells_time});
      for (const std::int64_t hidden_ms : {std::int64_t{0}, k_settle_ms / 2, k_settle_ms}) {
        for (const std::int64_t tick_ms : {1, 40})
          races.push_back({Entries::contested, hidden_ms, 0, unsure, 0, tick_ms, tells_time});
      }
    }
  }
  for (const RaceTraits& traits : races) {
    const bool numbered = traits.entries == Entries::numbered;
    CAPTURE(numbered);
    CAPTURE(traits.longest_hidden_ms);
    CAPTURE(traits.tick_ms);
    CAPTURE(traits.unsure_replies);
    CAPTURE(traits.tells_time);
    Race race(traits);
    race.run();
    const std::vector<Digest> history = race.history();
    const std::set<Digest> counted = set_of(history);
    CHECK(race.succeeded.size() + race.told.size() + race.unknown.size() == k_writers * k_rounds);
    CHECK(race.succeeded.size() > 5);
    CHECK(race.told.size() > 5);
    CHECK(counted.size() == history.size());
    CHECK(count_not_in(race.succeeded, counted) == 0);
    CHECK(count_in(race.told, counted) == 0);
    CHECK(count_not_in(counted, race.succeeded) == 0);
    CHECK(count_not_in(race.succeeded, race.targets()) == 0);
    CHECK(race.shown_forks().empty());
    CHECK(race.not_seen_after_success == 0);
    if (traits.unsure_replies == 0) CHECK(race.unknown.empty());
    if (!traits.tells_time && !numbered) continue;
    CHECK(race.went_back == 0);
    CHECK(count_not_in(set_of(race.read_commits), counted) == 0);
  }
}

TEST_CASE("writers that are killed while they wait lose nothing: each commit is in the history or in a fork") {
  CAPTURE(testing::seed());
  Race race({Entries::contested, k_settle_ms, 0, 10, 20, 1, true});
  race.run();
  const std::set<Digest> counted = set_of(race.history());
  const std::set<Digest> shown = race.shown_forks();
  CHECK(race.unknown.size() > 5);
  CHECK(count_not_in(race.succeeded, counted) == 0);
  CHECK(count_in(race.told, counted) == 0);
  for (const Digest& commit : race.targets())
    CHECK((counted.contains(commit) || race.told.contains(commit) || shown.contains(commit)));
}

TEST_CASE(
    "when a store hides entries for longer, whoever reported success is in the history or in a fork that is shown") {
  CAPTURE(testing::seed());
  std::size_t forked = 0;
  for (const bool tells_time : {true, false}) {
    for (const int unsure : {0, 10}) {
      CAPTURE(tells_time);
      CAPTURE(unsure);
      Race race({Entries::contested, k_settle_ms, 30, unsure, 0, 1, tells_time});
      race.run();
      const std::set<Digest> counted = set_of(race.history());
      const std::set<Digest> shown = race.shown_forks();
      CHECK(race.succeeded.size() + race.told.size() + race.unknown.size() == k_writers * k_rounds);
      // An entry whose reply was lost and that the store hid may win after its writer had lost with another one.
      if (unsure == 0) CHECK(count_in(race.told, counted) == 0);
      CHECK(count_not_in(race.succeeded, race.targets()) == 0);
      for (const Digest& commit : race.succeeded) {
        CHECK((counted.contains(commit) || shown.contains(commit)));
        if (!counted.contains(commit)) ++forked;
      }
    }
  }
  CHECK(forked > 0);
}

TEST_CASE("of rivals the earliest counts, then the smallest id, and what builds on a loser is a fork with it") {
  const auto id = [](char digit) { return std::string(32, digit); };
  const auto entries_of = [&](const std::vector<std::pair<std::string, std::int64_t>>& keys) {
    ContestedEntries entries({std::chrono::milliseconds(50), std::chrono::milliseconds(10)});
    for (const auto& [key, written_ms] : keys) entries.add({key, 1, written_ms});
    return entries;
  };
  const auto key = [&](std::uint64_t number, char write, char before) {
    return contested_key("branches/main/", number, id(write), id(before));
  };
  const auto written = [](const std::vector<ContestedEntry>& entries) {
    std::string text;
    for (const ContestedEntry& entry : entries) text += entry.write.front();
    return text;
  };
  CHECK(written(entries_of({}).line()).empty());
  CHECK(written(entries_of({{key(1, 'a', '0'), 200}, {key(1, 'b', '0'), 100}}).line()) == "b");
  CHECK(written(entries_of({{key(1, 'b', '0'), 100}, {key(1, 'a', '0'), 109}}).line()) == "a");  // of one tick
  CHECK(written(entries_of({{key(1, 'b', '0'), 100}, {key(1, 'a', '0'), 110}}).line()) == "b");
  const auto forked = entries_of({{key(1, 'a', '0'), 100},
                                  {key(2, 'b', 'a'), 210},
                                  {key(3, 'c', 'b'), 300},
                                  {key(2, 'd', 'a'), 200},
                                  {key(4, 'e', 'd'), 400},  // of a number that is not the next
                                  {key(3, 'f', '9'), 100}});
  CHECK(written(forked.line()) == "ad");
  CHECK(written(forked.line(259)) == "a");
  CHECK(written(forked.line(260)) == "ad");
  CHECK(written(forked.forks({})) == "cfe");
  CHECK(written(forked.forks(300)) == "f");
  CHECK(forked.has_orphans());
  CHECK(forked.is_rooted(id('c')));
  CHECK_FALSE(forked.is_rooted(id('e')));
  CHECK_FALSE(forked.is_rooted(id('f')));
  CHECK_FALSE(forked.is_rooted(id('7')));
  auto told = entries_of({{key(1, 'a', '0'), 100}, {key(1, 'b', '0'), 200}, {withdrawal_key(key(1, 'b', '0')), 300}});
  CHECK(written(told.line()) == "a");
  CHECK(told.forks({}).empty());
}

TEST_CASE("the last part of a key is an entry's, a withdrawal's, or nothing") {
  const std::string write(32, 'a');
  const std::string before(32, '0');
  const std::string good = "0000000000000007-" + write + "-" + before;
  CHECK(parse_contested_key(good)->number == 7);
  CHECK(parse_contested_key(good)->write == write);
  CHECK_FALSE(parse_contested_key(good)->is_withdrawal);
  CHECK(parse_contested_key(good + "-withdrawn")->is_withdrawal);
  CHECK(contested_key("", 7, write, before) == good);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = 'G';
    CHECK_FALSE(parse_contested_key(changed));
    CHECK_FALSE(parse_contested_key(good.substr(0, at)));
  }
  CHECK_FALSE(parse_contested_key(good + "0"));
  CHECK_FALSE(parse_contested_key("0000000000000007-" + before + "-" + write));  // no writer draws what stands for none
}

}  // namespace wdelta
