// SPDX-License-Identifier: Apache-2.0
#include "repo/verify.hpp"

#include "delta/diff_checkpoint.hpp"
#include "repo/remote_run.hpp"
#include "repo/world.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <map>

namespace wdelta {

using namespace testing;

namespace {

void put_flipped(const fs::path& path, std::string content, std::size_t at) {
  content[at] = static_cast<char>(content[at] ^ 1);
  put_file(path, content);
}

bool mentions(const std::vector<std::string>& findings, const std::string& text) {
  return std::ranges::any_of(findings, [&](const std::string& each) { return each.find(text) != std::string::npos; });
}

/// A repository with every kind of file: whole objects, deltas, packs, anchors, books, manifests, branches and tags.
void fill(const World& world, AnchorChoice last) {
  world.push_step(0);
  world.push_step(1);
  world.push_step(2, last);
  Repository repository = world.repository();
  repository.refs().move(RefKind::tag, "v1", {}, repository.resolve("main~1"), SilentExecution());
}

VerifyReport check_directory(const World& world, const fs::path& directory) {
  const Repository repository = world.repository();
  return verify_directory(repository, repository.commit(repository.resolve("main")), directory, best_engine(),
                          SilentExecution(2));
}

VerifyReport check_commit(const World& world, const std::string& revision) {
  const Repository repository = world.repository();
  return verify_commit(repository, repository.commit(repository.resolve(revision)), best_engine(), SilentExecution(2));
}

}  // namespace

TEST_CASE("a repository as it was written has no findings, and every file of it was looked at") {
  const World world;
  fill(world, AnchorChoice::now);
  CHECK(world.verify() == std::vector<std::string>());
  const Files stored = world.stored();
  for (const char* folder : {"branches/main/", "tags/v1/", "commits/", "recipes/", "objects/"}) {
    CHECK(std::ranges::any_of(stored, [&](const auto& file) { return file.first.starts_with(folder); }));
  }
  for (const auto& [key, content] : stored) CHECK_FALSE(key.starts_with("staging/"));
  for (const char* revision : {"main", "main~1", "main~2", "v1"}) {
    const VerifyReport report = check_commit(world, revision);
    CHECK(report.is_ok());
    CHECK(report.checked > 0);
  }
}

TEST_CASE("a flipped byte in any file of a repository is found, and the finding names the file") {
  const World world;
  fill(world, AnchorChoice::now);
  for (const auto& file : world.stored()) {
    const auto& key = file.first;
    const auto& content = file.second;
    CAPTURE(key);
    for (const std::size_t at : {std::size_t{0}, content.size() / 3, content.size() - 1}) {
      CAPTURE(at);
      put_flipped(world.repository_path() / key, content, at);
      if (key == "wdelta.json") {
        CHECK(fault_of([&] { world.verify(); }) == Fault::corrupt);
      } else {
        CHECK(mentions(world.verify(), key));
      }
    }
    for (const std::size_t size : {std::size_t{0}, content.size() - 1}) {
      put_file(world.repository_path() / key, content.substr(0, size));
      if (key != "wdelta.json") CHECK(mentions(world.verify(), key));
    }
    put_file(world.repository_path() / key, content);
  }
  CHECK(world.verify() == std::vector<std::string>());
}

TEST_CASE("an object, manifest or book that is missing is found and named") {
  const World world;
  fill(world, AnchorChoice::never);
  for (const auto& file : world.stored()) {
    const auto& key = file.first;
    const auto& content = file.second;
    CAPTURE(key);
    if (!key.starts_with("objects/") && !key.starts_with("commits/") && !key.starts_with("recipes/")) continue;
    fs::remove(world.repository_path() / key);
    // A book's name says whose it is: the digest in it is that of the very book that is gone.
    const std::string name =
        key.starts_with("recipes/") ? fs::path(key).parent_path().filename() : fs::path(key).stem();
    CHECK(mentions(world.verify(), fs::path(name).stem()));
    put_file(world.repository_path() / key, content);
  }
  CHECK(world.verify() == std::vector<std::string>());
}

TEST_CASE("a file under objects, commits or recipes whose name is none is found") {
  const std::string id(64, 'a');
  for (const std::string& key :
       {std::string("objects/ab/readme"), std::string("objects/stray"), std::string("commits/readme.json"),
        std::string("recipes/readme"), "recipes/" + id + ".json", "recipes/" + id + "/readme.json",
        "recipes/" + id + "/" + id, "recipes/deeper/" + id + "/" + id + ".json"}) {
    const World world;
    world.push_step(0);
    put_file(world.repository_path() / key, "x");
    CHECK(mentions(world.verify(), key));
  }
}

TEST_CASE("a book of a push that did not come to its end is checked as well") {
  const World world;
  world.push_step(0);
  Repository repository = world.repository();
  const Digest unfinished = blake3(std::span<const std::uint8_t>());
  const std::string key = repository.put_book(unfinished, RecipeBook());
  CHECK(world.verify() == std::vector<std::string>());
  put_flipped(world.repository_path() / key, world.stored().at(key), 5);
  CHECK(mentions(world.verify(), key));
}

TEST_CASE("a damaged book of a commit that is damaged itself is found as well") {
  const World world;
  world.push_step(0);
  for (const auto& [key, content] : world.stored()) {
    if (key.starts_with("commits/") || key.starts_with("recipes/"))
      put_flipped(world.repository_path() / key, content, 5);
  }
  const auto findings = world.verify();
  CHECK(mentions(findings, "commits/"));
  CHECK(mentions(findings, "recipes/"));
}

TEST_CASE("a commit that can no longer be rebuilt is found, file by file") {
  const World world;
  fill(world, AnchorChoice::never);
  for (const auto& file : world.stored()) {
    const auto& key = file.first;
    const auto& content = file.second;
    if (!key.starts_with("objects/")) continue;
    CAPTURE(key);
    put_flipped(world.repository_path() / key, content, content.size() / 2);
    std::size_t findings = 0;
    for (const char* revision : {"main", "main~1", "main~2"}) findings += check_commit(world, revision).findings.size();
    CHECK(findings > 0);
    put_file(world.repository_path() / key, content);
  }
}

TEST_CASE("a deep check over a network fetches no large object twice") {
  RemoteRun run;
  std::map<std::string, int> gets;
  run.on_get = [&](const std::string& key) { ++gets[key]; };
  const VerifyReport report = verify_repository(run.repository(), VerifyDepth::deep, best_engine(), SilentExecution(2));
  CHECK(report.is_ok());
  int large = 0;
  for (const Store::Listed& listed : MemoryStore(run.bucket()).list("objects/")) {
    if (listed.size_bytes < (1U << 20)) continue;
    ++large;
    CHECK_MESSAGE(gets[listed.key] == 1, listed.key);
  }
  CHECK(large == 2 * RemoteRun::k_shards);
}

TEST_CASE("what is pushed while verify is at work is looked at like all else") {
  RemoteRun run;
  unsigned pushes = 0;
  const auto objects = [&] {
    std::set<std::string> keys;
    for (const Store::Listed& listed : MemoryStore(run.bucket()).list("objects/")) keys.insert(listed.key);
    return keys;
  };
  for (const bool is_damaged : {false, true}) {
    for (const VerifyDepth depth : {VerifyDepth::quick, VerifyDepth::objects, VerifyDepth::deep}) {
      CAPTURE(is_damaged);
      CAPTURE(static_cast<int>(depth));
      std::vector<std::string> added;
      std::string content;
      std::atomic<bool> is_begun = false;
      // Objects were listed by then, and commits were not.
      run.before_read = [&](const std::string& key) {
        if (!key.starts_with("branches/") || is_begun.exchange(true)) return;
        const ScratchDirectory scratch;
        std::mt19937_64 random(++pushes);
        put_file(scratch / "c/model.safetensors", safetensors_file({random_tensor("t", {"F32", 32}, 10'000, random)}));
        const std::set<std::string> before = objects();
        Repository to = run.repository();
        push(to, Checkpoint::open(scratch / "c"), {}, {}, best_engine(), SilentExecution());
        std::ranges::set_difference(objects(), before, std::back_inserter(added));
        MemoryStore store(run.bucket());
        content = get_text(store, added.at(0), UINT64_MAX).value();
        if (is_damaged) store.put(added[0], std::string(content.size(), 'd'));
      };
      const VerifyReport report = verify_repository(run.repository(), depth, best_engine(), SilentExecution(1));
      REQUIRE(added.size() == 1);
      CHECK(report.unseen.empty());
      // Without reading it nobody can know.
      const bool is_found =
          std::ranges::any_of(report.findings, [&](const Finding& f) { return f.object == added[0]; });
      CHECK(is_found == (is_damaged && depth != VerifyDepth::quick));
      if (!is_found) CHECK(report.findings.empty());
      MemoryStore(run.bucket()).put(added[0], content);
    }
  }
}

TEST_CASE("what cannot be looked at is told apart from what is wrong, and both are told") {
  for (const Fault fault : {Fault::local, Fault::unsupported}) {
    CAPTURE(name_of(fault));
    RemoteRun run;
    run.before_read = [&](const std::string& key) {
      if (key == run.deltas().front()) throw Error(fault, key, "no more files can be open");
    };
    const auto verify = [&](VerifyDepth depth) {
      return verify_repository(run.repository(), depth, best_engine(), SilentExecution(2));
    };
    for (const VerifyDepth depth : {VerifyDepth::objects, VerifyDepth::deep}) {
      const VerifyReport report = verify(depth);
      CHECK_FALSE(report.is_ok());
      CHECK(report.findings.empty());
      REQUIRE_FALSE(report.unseen.empty());
      CHECK(report.unseen.front().object == run.deltas().front());
      CHECK(report.unseen.front().fault == fault);
    }
    const VerifyReport of_commit = verify_commit(
        run.repository(), run.repository().commit(run.repository().resolve("main")), best_engine(), SilentExecution(2));
    CHECK(of_commit.findings.empty());
    CHECK(of_commit.unseen.size() == 1);
    CHECK(of_commit.checked == RemoteRun::k_shards);

    MemoryStore(run.bucket()).put(run.deltas().back(), "damage");
    const VerifyReport both = verify(VerifyDepth::objects);
    CHECK(both.findings.size() >= 1);
    CHECK(both.unseen.size() == 1);
  }
}

TEST_CASE("where the network fails verify asks no further, and tells what it has found") {
  RemoteRun run;
  std::string first;  // of the objects that are read
  int failures = 0;
  run.before_read = [&](const std::string& key) {
    if (!key.starts_with("objects/")) return;
    if (first.empty()) first = key;
    if (key == first) return;
    ++failures;
    throw Error(Fault::network, key, "the connection was reset");
  };
  for (const bool is_damaged : {false, true}) {
    CAPTURE(is_damaged);
    MemoryStore store(run.bucket());
    if (is_damaged) store.put(first, std::string(store.get(first)->size_bytes(), 'd'));
    failures = 0;
    const VerifyReport report =
        verify_repository(run.repository(), VerifyDepth::objects, best_engine(), SilentExecution(1));
    CHECK(failures == 1);
    REQUIRE(report.unseen.size() == 1);
    CHECK(report.unseen.front().fault == Fault::network);
    REQUIRE(report.findings.size() == (is_damaged ? 1 : 0));
    if (is_damaged) CHECK(report.findings.front().object == first);
  }
}

TEST_CASE("a stop while branches are looked at ends verify") {
  RemoteRun run;
  run.on_get = [](const std::string& key) {
    if (key.starts_with("branches/")) throw Error(Fault::interrupted, key, "stopped");
  };
  CHECK(fault_of([&] { verify_repository(run.repository(), VerifyDepth::quick, best_engine(), SilentExecution(1)); }) ==
        Fault::interrupted);
}

TEST_CASE("a directory is compared file by file, and the tensors that differ are named") {
  const World world;
  fill(world, AnchorChoice::never);
  world.pull("main", world / "out");
  CHECK(check_directory(world, world / "out").is_ok());
  const Files files = files_below(world / "out");
  for (const auto& file : files) {
    const auto& place = file.first;
    const auto& content = file.second;
    CAPTURE(place);
    put_flipped(world / "out" / place, content, content.size() - 1);
    const auto changed = check_directory(world, world / "out").findings;
    REQUIRE(changed.size() == 1);
    CHECK(changed.front().object == place);
    if (place == "model-2.safetensors") CHECK(changed.front().tensors == std::vector<std::string>{"c"});
    fs::remove(world / "out" / place);
    const auto missing = check_directory(world, world / "out").findings;
    CHECK(std::ranges::any_of(missing, [&](const Finding& finding) { return finding.object == place; }));
    put_file(world / "out" / place, content);
    fs::permissions(world / "out" / place, fs::perms::owner_all);
    CHECK(check_directory(world, world / "out").findings.size() == 1);
    fs::permissions(world / "out" / place, fs::perms::owner_read | fs::perms::owner_write);
  }
  put_file(world / "out/notes.txt", "x");
  CHECK(check_directory(world, world / "out").is_ok());
  put_file(world / "out/stray.safetensors", "no weights at all");
  CHECK(check_directory(world, world / "out").findings.size() == 1);
  put_file(world / "out/model-1.safetensors", "no weights either");
  const auto findings = check_directory(world, world / "out").findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings.front().tensors.empty());
}

TEST_CASE("a delta alone is checked, as a file and as a directory, whatever byte of it is flipped") {
  const World world;
  diff_checkpoints(Checkpoint::open(world.checkpoint(0)), Checkpoint::open(world.checkpoint(1)), world / "delta",
                   BlockChoice::automatic, best_engine(), SilentExecution());
  CHECK(is_delta_directory(world / "delta"));
  CHECK_FALSE(is_delta_directory(world.checkpoint(0)));
  CHECK(verify_delta(world / "delta", SilentExecution()).is_ok());
  for (const auto& file : files_below(world / "delta")) {
    const auto& place = file.first;
    const auto& content = file.second;
    CAPTURE(place);
    for (std::size_t at = 0; at < content.size(); at += 1 + content.size() / 50) {
      put_flipped(world / "delta" / place, content, at);
      const auto is_found = [&] {
        const VerifyReport report = verify_delta(world / "delta", SilentExecution());
        return report.findings.size() == 1 && report.findings.front().object.ends_with(place);
      };
      bool is_right = false;
      const auto fault = fault_of([&] { is_right = is_found(); });
      REQUIRE((is_right || fault == Fault::corrupt));
    }
    put_file(world / "delta" / place, content);
  }
}

}  // namespace wdelta
