// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/json.hpp"
#include "repo/world.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr const char* k_time = "2026-11-21T06:15:00Z";

/// A repository of bare manifests: ids, parents and steps, no files.
class History {
 public:
  explicit History(const std::string& location) : repository_(Repository::open_or_create(location)) {}

  const Repository& repository() const { return repository_; }
  Digest commit(std::optional<std::uint64_t> step, const std::string& message = "") {
    Manifest manifest;
    manifest.time = k_time;
    manifest.step = step;
    manifest.message = message;
    if (!ids_.empty()) {
      manifest.parent = ids_.back();
      manifest.ancestors = ancestors_of_child(ids_.back(), repository_.commit(ids_.back()).manifest);
    }
    const Digest id = put(manifest);
    move(RefKind::branch, "main", repository_.refs().read(RefKind::branch, "main"), id);
    ids_.push_back(id);
    return id;
  }
  /// A commit that no branch has.
  Digest put(const Manifest& manifest) {
    const std::string text = to_text(manifest);
    const Digest id = blake3(text);
    repository_.store().put(commit_key(id), text);
    return id;
  }
  void tag(const std::string& name, const Digest& id) { move(RefKind::tag, name, {}, id); }
  const std::vector<Digest>& ids() const { return ids_; }

 private:
  void move(RefKind kind, const std::string& name, const RefState& before, const Digest& id) {
    repository_.refs().move(kind, name, before, id, SilentExecution());
  }

  Repository repository_;
  std::vector<Digest> ids_;
};

}  // namespace

TEST_CASE("revisions name branches, tags, steps, ids and what lies behind them") {
  const ScratchDirectory scratch;
  History history(scratch / "r");
  const auto resolving = [&](const std::string& revision) {
    return fault_of([&] { history.repository().resolve(revision); });
  };
  const auto resolved = [&](const std::string& revision) { return history.repository().resolve(revision); };
  for (const char* revision : {"", "main", "step:1", "~1", "deadbeef"}) CHECK(resolving(revision) == Fault::not_found);

  for (const int step : {10, 20, 20, 30}) history.commit(step);
  history.commit(std::nullopt);
  const auto& ids = history.ids();
  history.tag("v1", ids[1]);
  history.tag("deadbeef", ids[2]);
  history.tag("main", ids[0]);  // the branch comes first
  for (const std::string tip : {"", "main", "~0", "main~0"}) CHECK(resolved(tip) == ids[4]);
  CHECK(resolved("v1") == ids[1]);
  CHECK(resolved("deadbeef") == ids[2]);
  CHECK(resolved("step:20") == ids[2]);
  CHECK(resolved("step:10") == ids[0]);
  for (const auto& row : {std::pair("~", 3),
                          {"~4", 0},
                          {"main~", 3},
                          {"main~2", 2},
                          {"main~~", 2},
                          {"main~1~2", 1},
                          {"v1~1", 0},
                          {"step:30~2", 1}}) {
    const auto& revision = row.first;
    const auto& number = row.second;
    CAPTURE(std::string(revision));
    CHECK(resolved(revision) == ids[static_cast<std::size_t>(number)]);
  }
  for (const Digest& id : ids) {
    for (std::size_t digits = 8; digits <= 64; ++digits) CHECK(resolved(id.hex().substr(0, digits)) == id);
    CHECK(resolving(id.hex().substr(0, 7)) == Fault::not_found);
    CHECK(resolving(id.hex() + "0") == Fault::not_found);
  }
  for (const char* revision :
       {"v2", "step:99", "~5", "main~5", "v1~2", "0000000000", "main/x", "mai", "a b", "../x", "/"}) {
    CAPTURE(std::string(revision));
    CHECK(resolving(revision) == Fault::not_found);
  }
  for (const char* revision :
       {"step:", "step:x", "step:-1", "step:1x", "main~x", "main~-1", "main~99999999999999999999", "main~2000000000"}) {
    CAPTURE(std::string(revision));
    CHECK(resolving(revision) == Fault::usage);
  }
}

TEST_CASE("a prefix that two ids share is ambiguous, one that is longer is not") {
  const ScratchDirectory scratch;
  History history(scratch / "r");
  const Digest id = history.commit(1);
  // A second name that begins alike; what it holds does not matter to finding it.
  const std::string twin = id.hex().substr(0, 20) + std::string(44, id.hex()[20] == '0' ? '1' : '0');
  history.repository().store().put("commits/" + twin + ".json", "{}");
  for (std::size_t digits = 8; digits <= 20; ++digits) {
    CHECK(fault_of([&] { history.repository().resolve(id.hex().substr(0, digits)); }) == Fault::usage);
  }
  for (std::size_t digits = 21; digits <= 64; ++digits) {
    CHECK(history.repository().resolve(id.hex().substr(0, digits)) == id);
  }
}

TEST_CASE("a prefix of sixteen decimal digits names a commit, although no branch could be named so") {
  const ScratchDirectory scratch;
  History history(scratch / "r");
  Manifest manifest;
  manifest.time = k_time;
  Digest id;
  const auto is_decimal = [](char c) { return c >= '0' && c <= '9'; };
  for (int i = 0; !std::ranges::all_of(id.hex().substr(0, 16), is_decimal) || i == 0; ++i) {
    manifest.message = std::to_string(i);
    id = blake3(to_text(manifest));
  }
  history.put(manifest);
  std::optional<Digest> found;
  CHECK(fault_of([&] { found = history.repository().resolve(id.hex().substr(0, 16)); }) == std::nullopt);
  CHECK(found == id);
}

TEST_CASE("a walk visits every commit once, newest first, at its distance, and reads few of them") {
  const ScratchDirectory scratch;
  History history(scratch / "r");
  constexpr std::size_t k_commits = 300;
  for (std::size_t i = 0; i < k_commits; ++i) history.commit(i, "number " + std::to_string(i));
  const auto& ids = history.ids();
  for (const std::size_t from :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, k_commits - 1}) {
    std::uint64_t visited = 0;
    history.repository().walk(ids[from], [&](const CommitSummary& commit) {
      CHECK(commit.distance == visited);
      CHECK(commit.id == ids[from - visited]);
      CHECK(commit.step == from - visited);
      CHECK(commit.title == "number " + std::to_string(from - visited));
      ++visited;
      return true;
    });
    CHECK(visited == from + 1);
  }
  for (const std::size_t back : {0, 1, 64, 65, 200}) {
    CHECK(history.repository().resolve("main~" + std::to_string(back)) == ids[k_commits - 1 - back]);
  }
  // All manifests but every 64th could be gone.
  for (std::size_t i = 0; i < k_commits; ++i) {
    if ((k_commits - 1 - i) % 64 != 0 && i > 0) history.repository().store().remove(commit_key(ids[i]));
  }
  std::size_t visited = 0;
  history.repository().walk(ids.back(), [&](const CommitSummary&) { return ++visited < k_commits - 1; });
  CHECK(visited == k_commits - 1);
}

TEST_CASE("a location splits at the last @, unless the whole exists") {
  const ScratchDirectory scratch;
  const auto split = [](const std::string& text, const std::string& fallback = "") {
    const Location location = parse_location(text, fallback);
    return std::pair(location.repository, location.revision);
  };
  using Pair = std::pair<std::string, std::string>;
  CHECK(split("repo") == Pair("repo", ""));
  CHECK(split("repo@v1") == Pair("repo", "v1"));
  CHECK(split("a@b/repo@step:3~1") == Pair("a@b/repo", "step:3~1"));
  CHECK(split("s3://user@host/x@v1") == Pair("s3://user@host/x", "v1"));
  CHECK(split("@v1", "fallback") == Pair("fallback", "v1"));
  CHECK(split("repo@v1", "fallback") == Pair("repo", "v1"));
  CHECK(fault_of([&] { split("@v1"); }) == Fault::usage);
  CHECK(fault_of([&] { split("repo@"); }) == Fault::usage);  // a variable that is not set, not the tip of main
  CHECK(fault_of([&] { split("@", "fallback"); }) == Fault::usage);
  const std::string with_at = scratch / "run@3";
  CHECK(split(with_at) == Pair(scratch / "run", "3"));
  fs::create_directories(with_at);
  CHECK(split(with_at) == Pair(with_at, ""));
  fs::create_directories(scratch / "run@");
  CHECK(split(scratch / "run@") == Pair(scratch / "run@", ""));
  CHECK(split(with_at + "@v1") == Pair(with_at, "v1"));
}

TEST_CASE("a repository is opened where there is one, made where nothing is, and refused elsewhere") {
  const ScratchDirectory scratch;
  CHECK(fault_of([&] { Repository::open(scratch / "none"); }) == Fault::not_found);
  const std::string id = Repository::open_or_create(scratch / "r").id();
  CHECK(id.size() == 32);
  CHECK(Repository::open(scratch / "r").id() == id);
  CHECK(Repository::open_or_create(scratch / "r").id() == id);
  CHECK(Repository::open_or_create(scratch / "other").id() != id);
  put_file(scratch / "taken/file", "x");
  CHECK(fault_of([&] { Repository::open_or_create(scratch / "taken"); }) == Fault::usage);
  CHECK(fault_of([&] { Repository::open(scratch / "taken"); }) == Fault::not_found);

  const std::string text = get_file(scratch / "r/wdelta.json");
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
    put_file(scratch / "r/wdelta.json", changed);
    REQUIRE(fault_of([&] { Repository::open(scratch / "r"); }) == Fault::corrupt);
    REQUIRE(fault_of([&] { Repository::open_or_create(scratch / "r"); }) == Fault::corrupt);
  }
  for (const auto& [branches, version] : {std::pair("otherwise", 1), {"exclusive", 2}}) {
    put_file(scratch / "r/wdelta.json",
             seal({{"format", "wdelta-repository"}, {"version", version}, {"id", id}, {"branches", branches}}));
    CHECK(fault_of([&] { Repository::open(scratch / "r"); }) == Fault::unsupported);
  }
}

}  // namespace wdelta
