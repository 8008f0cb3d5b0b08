// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "repo/commit_checkpoint.hpp"
#include "repo/local_files.hpp"
#include "repo/pull_state.hpp"
#include "repo/world.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <thread>
#include <tuple>

namespace wdelta {

using namespace testing;

namespace {

void flip(const fs::path& path, std::size_t from_end) {
  std::string content = get_file(path);
  content[content.size() - from_end] = static_cast<char>(content[content.size() - from_end] ^ 1);
  put_file(path, content);
}

void make_newer(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(10));
}

void set_mtime(const fs::path& path, std::int64_t time_ns) {
  const timespec times[2] = {{0, UTIME_OMIT}, {time_ns / 1'000'000'000, time_ns % 1'000'000'000}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

/// Until the ctime of what was changed just now has settled: soon where times have parts of seconds.
void wait_until_settled(const fs::path& path) {
  const bool is_fine = stamp_of(path)->ctime_ns % 1'000'000'000 != 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(is_fine ? 50 : 3000));
}

std::uint64_t bytes_hashed_by_pull(const World& world) {
  StageClock stages;
  RecordedProgress progress;
  world.pull("main", world / "out", Execution{1, &progress, {}, &stages});
  return stages.total(Stage::hash).bytes;
}

void make_older(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(10));
}

}  // namespace

TEST_CASE("every commit is pulled exactly, from every other one and from nothing") {
  for (const AnchorChoice anchor : {AnchorChoice::automatic, AnchorChoice::never, AnchorChoice::now}) {
    const World world;
    for (int step = 0; step < 4; ++step) world.push_step(step, anchor);
    for (const int from : {-1, 0, 1, 2, 3}) {
      const fs::path directory = world / ("from" + std::to_string(from));
      for (const int to : {3, 0, 2, 1, 3}) {
        if (from >= 0) world.pull("step:" + std::to_string(from), directory);
        world.pull("step:" + std::to_string(to), directory);
        REQUIRE((files_below(directory) == commit_files(to)));
      }
    }
    CHECK(world.verify() == std::vector<std::string>());
  }
}

TEST_CASE("pushing what the tip is already makes no commit and stores nothing") {
  const World world;
  const Digest first = world.push_step(0);
  const Files before = world.stored();
  CHECK(world.push_step(0) == first);
  CHECK(world.push_step(0, AnchorChoice::automatic, "other host") == first);
  CHECK((world.stored() == before));
  fs::permissions(world.checkpoint(0) / "config.json", fs::perms::owner_all);
  CHECK(world.push_step(0) != first);
}

TEST_CASE("a push stores a delta whether or not the previous checkpoint is still where it was") {
  for (const bool is_there : {true, false}) {
    const World world;
    world.push_step(0);
    if (!is_there) fs::remove_all(world.checkpoint(0));
    const PushReport report = world.push(world.checkpoint(2));
    CHECK(report.compared_with_repository == !is_there);
    CHECK(report.kept.change_count == 600);
    CHECK(report.kept.delta_bytes > 0);
    CHECK(report.stored_bytes < report.checkpoint_bytes / 2);
    world.pull("main", world / "out");
    CHECK((files_below(world / "out") == commit_files(2)));
  }
}

TEST_CASE("files of the tip that a caller has are compared with, of another commit not, and changed ones are noticed") {
  for (const std::string what : {"tip", "other commit", "changed"}) {
    const World world;
    const Digest tip = world.push_step(0);
    const fs::path kept = world / "kept";
    fs::copy(world.checkpoint(0), kept, fs::copy_options::recursive);
    fs::remove_all(world.checkpoint(0));
    if (what == "changed") flip(kept / "model-1.safetensors", 100);
    PushOptions options;
    options.at_hand = CommitAtHand{what == "other commit" ? Digest() : tip, {}};
    for (const std::string name : {"model-1.safetensors", "model-2.safetensors", "tokenizer.json"}) {
      options.at_hand->files[name] = [path = kept / name] { return std::make_shared<File>(File::open(path)); };
    }
    RecordedProgress progress;
    const PushReport report = world.push(world.checkpoint(2), options, {}, {1, &progress, {}});
    CHECK(report.compared_with_repository == (what == "other commit"));
    CHECK(progress.notes().size() == (what == "tip" ? 0 : 1));
    CHECK(report.kept.change_count == 600);
    world.pull("main", world / "out");
    CHECK((files_below(world / "out") == commit_files(2)));
  }
}

TEST_CASE("a previous checkpoint that was changed in place without a trace is noticed and not built upon") {
  const World world;
  world.push_step(0);
  const fs::path shard = world.checkpoint(0) / "model-1.safetensors";
  const auto time = fs::last_write_time(shard);
  flip(shard, 100);
  fs::last_write_time(shard, time);
  world.push_step(2);
  CHECK(world.verify() == std::vector<std::string>());
  world.pull("main", world / "out");
  CHECK((files_below(world / "out") == commit_files(2)));
}

TEST_CASE("a checkpoint that changes while it is pushed is refused, and the branch stays") {
  class Toucher final : public RecordedProgress {
   public:
    explicit Toucher(fs::path path) : path_(std::move(path)) {}
    void advance(std::uint64_t) override {
      if (!touched_) make_older(path_);
      touched_ = true;
    }

   private:
    fs::path path_;
    bool touched_ = false;
  };
  for (const char* name : {"model-2.safetensors", "config.json", "tokenizer.json"}) {
    const World world;
    const Digest first = world.push_step(0);
    Toucher progress(world.checkpoint(2) / name);
    CHECK(fault_of([&] { world.push(world.checkpoint(2), {}, {}, Execution{1, &progress, {}}); }) == Fault::local);
    CHECK(world.repository().resolve("main") == first);
    CHECK(world.verify() == std::vector<std::string>());
  }
}

TEST_CASE("files that were changed, or weights that nobody knows, are named and refused, and replaced by force") {
  const World world;
  world.push_step(0);
  world.push_step(1);
  const std::vector<std::pair<std::string, std::function<void(const fs::path&)>>> changes = {
      {"model-1.safetensors", [](const fs::path& path) { flip(path, 3); }},
      {"config.json", [](const fs::path& path) { put_file(path, "{\"mine\":1}"); }},
      {"draft.safetensors", [](const fs::path& path) { flip(path, 3); }},  // which step 0 has not
      {"stray.safetensors", [](const fs::path& path) { put_file(path, "x"); }}};
  for (const auto& local : changes) {
    const auto& name = local.first;
    const auto& change = local.second;
    CAPTURE(name);
    const fs::path directory = world / ("out " + name);
    world.pull("step:1", directory);
    change(directory / name);
    put_file(directory / "notes.txt", "mine");
    const Files before = files_below(directory);
    const auto pull = [&] { world.pull("step:0", directory); };
    CHECK(fault_of(pull) == Fault::local);
    CHECK(message_of(pull).find(name) != std::string::npos);
    CHECK((files_below(directory) == before));
    const PullReport report = world.pull("step:0", directory, LocalChanges::discard);
    CHECK(report.strays == std::vector<std::string>{"notes.txt"});
    Files expected = commit_files(0);
    expected["notes.txt"] = "mine";
    CHECK((files_below(directory) == expected));
  }
}

TEST_CASE("files that lie there already are kept, whoever wrote them, and deltas apply to them") {
  const World world;
  world.push_step(0);
  world.push_step(2);
  write_checkpoint(world / "copy", 2);
  const PullReport same = world.pull("step:2", world / "copy");
  CHECK(same.written_files == 0);
  CHECK(same.fetched_bytes == 0);
  write_checkpoint(world / "older", 0);
  fs::remove(world / "older/only-0.txt");
  // The small files of another commit are known by no recipe, so only force takes them for replaceable.
  const PullReport older = world.pull("step:2", world / "older", LocalChanges::discard);
  CHECK(older.fetched_bytes > 0);
  CHECK(older.fetched_bytes < older.written_bytes / 2);
  CHECK((files_below(world / "older") == commit_files(2)));
}

TEST_CASE("a state that lies about a file, or about all, does not lead to a wrong checkpoint") {
  const World world;
  world.push_step(0);
  world.push_step(2);
  const auto directory_with_lie = [&](const std::string& name, const std::string& content) {
    const fs::path directory = world / name;
    world.pull("step:0", directory);
    PullState state = load_pull_state(directory);
    put_file(directory / "model-1.safetensors", content);
    for (auto& [place, file] : state.files) file.stamp = stamp_of(directory / place).value();
    save_pull_state(directory, state);
    make_newer(pull_folder(directory) / "state.json");  // so that stamps are believed
    return directory;
  };
  std::string flipped = commit_files(0).at("model-1.safetensors");
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (const auto& lie : {std::pair<std::string, std::string>{"flipped", flipped},
                          {"short", flipped.substr(0, 100)},
                          {"other", "no safetensors file at all"},
                          {"other tensors", text_of(safetensors_file({}))}}) {
    const auto& name = lie.first;
    const auto& content = lie.second;
    CAPTURE(name);
    const fs::path directory = directory_with_lie(name, content);
    CHECK(message_of([&] { world.pull("step:2", directory); }) == "");
    CHECK((files_below(directory) == commit_files(2)));
  }
}

TEST_CASE("a file that was changed behind its mtime is noticed, however long after the pull") {
  const World world;
  world.push_step(0);
  world.pull("main", world / "out");
  make_newer(pull_folder(world / "out") / "state.json");
  const fs::path shard = world / "out/model-1.safetensors";
  const auto stamp = stamp_of(shard);
  const auto time = fs::last_write_time(shard);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick of any clock
  std::fstream(shard, std::ios::in | std::ios::out).seekp(-100, std::ios::end).write("changed", 7);
  fs::last_write_time(shard, time);
  REQUIRE(stamp_of(shard) == stamp);
  CHECK(fault_of([&] { world.pull("main", world / "out"); }) == Fault::local);
}

TEST_CASE("what a pull wrote is not hashed by the next one once its stamps tell changes apart") {
  const World world;
  world.push_step(0);
  world.pull("main", world / "out");
  const auto last_settled_ns = [&] {
    std::int64_t last = 0;
    for (const auto& [place, content] : commit_files(0))
      last = std::max(last, settled_ns(stamp_of(world / "out" / place).value()));
    return last;
  };
  const fs::path state = pull_folder(world / "out") / "state.json";
  set_mtime(state, last_settled_ns() + 1'000'000'000);  // the next moment that any file system has
  CHECK(bytes_hashed_by_pull(world) == 0);
  set_mtime(state, last_settled_ns());
  CHECK(bytes_hashed_by_pull(world) > 0);
}

TEST_CASE("what was hashed while a change could have left it its stamp is hashed by the next pull too") {
  const World world;
  world.push_step(0);
  world.pull("main", world / "out");
  const fs::path shard = world / "out/model-1.safetensors";
  const fs::path state = pull_folder(world / "out") / "state.json";
  const std::int64_t now_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const bool is_settled : {false, true}) {
    CAPTURE(is_settled);
    const std::int64_t changed_ns = now_ns + (is_settled ? -3600 : 3600) * 1'000'000'000LL;
    set_mtime(shard, changed_ns);
    wait_until_settled(shard);
    CHECK(bytes_hashed_by_pull(world) >= fs::file_size(shard));
    set_mtime(state, now_ns + 7200 * 1'000'000'000LL);
    CHECK((bytes_hashed_by_pull(world) == 0) == is_settled);
  }
}

TEST_CASE("where a file system does not tell its time nothing that was hashed is vouched for") {
  const World world;
  world.push_step(0);
  world.pull("main", world / "out");
  const Repository repository = world.repository();
  const Commit commit = repository.commit(repository.resolve("main"));
  const RecipeGraph recipes = repository.recipes(commit);
  for (const auto& [place, content] : commit_files(0)) wait_until_settled(world / "out" / place);
  for (const bool tells_time : {true, false}) {
    CAPTURE(tells_time);
    if (!tells_time) fs::remove(pull_lock(world / "out"));
    const LocalFiles local = survey(world / "out", {}, commit.manifest, recipes, SilentExecution());
    REQUIRE(local.held.size() == commit_files(0).size());
    for (const auto& [place, held] : local.held) {
      CHECK(held.is_settled == tells_time);
      CHECK((held.pulled().stamp.ctime_ns == stamp_of(world / "out" / place)->ctime_ns) == tells_time);
    }
  }
}

TEST_CASE("a pull waits for stamps to settle where files are large, and they soon will") {
  constexpr std::int64_t k_second_ns = 1'000'000'000;
  constexpr std::int64_t k_now_ns = 1000 * k_second_ns + 500'000'000;
  constexpr std::uint64_t k_large_bytes = std::uint64_t{256} << 20;
  const auto time_for = [&](std::vector<std::pair<std::int64_t, std::uint64_t>> files) {  // ctime, size
    PullState state;
    for (const auto& [ctime_ns, size_bytes] : files) {
      PullState::Pulled& file = state.files[std::to_string(state.files.size())];
      file.stamp.mtime_ns = file.stamp.ctime_ns = ctime_ns;
      file.stamp.size_bytes = size_bytes;
    }
    return settling_time(state, k_now_ns).count();
  };
  CHECK(time_for({}) == 0);
  CHECK(time_for({{k_now_ns, k_large_bytes}}) == 30'000'000);  // 20 ms, and a tick of the clock
  CHECK(time_for({{k_now_ns, k_large_bytes - 1}}) == 0);
  CHECK(time_for({{k_now_ns - 1, k_large_bytes / 2}, {k_now_ns - 2, k_large_bytes / 2}}) == 29'999'999);
  CHECK(time_for({{k_now_ns - 30'000'000, k_large_bytes}}) == 0);
  CHECK(time_for({{k_now_ns, 1}, {k_now_ns - 30'000'000, k_large_bytes}}) == 0);
  CHECK(time_for({{1000 * k_second_ns, k_large_bytes}}) == 0);          // whole seconds: two, which is too long
  CHECK(time_for({{k_now_ns + 3 * k_second_ns, k_large_bytes}}) == 0);  // of a clock that goes ahead
}

TEST_CASE("a damaged state is refused as corrupt, and without one everything is looked at anew") {
  const World world;
  world.push_step(0);
  world.pull("main", world / "out");
  flip(world / "out/.wdelta/state.json", 30);
  CHECK(fault_of([&] { world.pull("main", world / "out"); }) == Fault::corrupt);
  fs::remove_all(world / "out/.wdelta");
  CHECK(world.pull("main", world / "out").written_files == 0);
}

TEST_CASE("a state reads back as it was saved") {
  const World world;
  fs::create_directories(pull_folder(world / "out"));
  CHECK(load_pull_state(world / "out").files.empty());
  PullState state;
  state.repository = "file:///größe";
  state.files["a/b"] = {blake3("x"), {1, -5, UINT64_MAX, 3, true, 1'234'567}};
  state.expected["c"] = blake3("y");
  for (const bool at_work : {false, true}) {
    state.commit = at_work ? std::nullopt : std::optional(blake3("z"));
    save_pull_state(world / "out", state);
    const PullState back = load_pull_state(world / "out");
    CHECK(back.repository == state.repository);
    CHECK(back.commit == state.commit);
    CHECK(back.expected == state.expected);
    CHECK(back.files.at("a/b").digest == state.files.at("a/b").digest);
    CHECK(back.files.at("a/b").stamp == state.files.at("a/b").stamp);
    CHECK(back.files.at("a/b").stamp.ctime_ns == 1'234'567);
  }
}

TEST_CASE("nothing is written through a symlink, and a symlinked file is replaced, not followed") {
  const World world;
  world.push_step(0);
  put_file(world / "outside/state", "precious");
  fs::create_directories(world / "out");
  fs::create_directory_symlink(world / "outside", world / "out/trainer");
  CHECK(fault_of([&] { world.pull("main", world / "out"); }) == Fault::local);
  CHECK(get_file(world / "outside/state") == "precious");

  put_file(world / "blob", "precious");
  fs::create_directories(world / "snapshot");
  fs::create_symlink(world / "blob", world / "snapshot/config.json");
  world.pull("main", world / "snapshot", LocalChanges::discard);
  CHECK(get_file(world / "blob") == "precious");
  CHECK((files_below(world / "snapshot") == commit_files(0)));
}

TEST_CASE("a place that turns from a file into a directory, or back, is pulled like any other") {
  const World world;
  write_checkpoint(world / "file", 0);
  write_checkpoint(world / "directory", 0);
  put_file(world / "file/x", "file");
  put_file(world / "directory/x/y", "below");
  const Digest as_file = world.push(world / "file").id;
  const Digest as_directory = world.push(world / "directory").id;
  for (const auto& turn : {std::tuple(as_file, as_directory, "directory"), {as_directory, as_file, "file"}}) {
    const auto& from = std::get<0>(turn);
    const auto& to = std::get<1>(turn);
    const auto& expected = std::get<2>(turn);
    CAPTURE(std::string(expected));
    const fs::path out = world / (std::string("out ") + expected);
    world.pull(from.hex(), out);
    CHECK(message_of([&] { world.pull(to.hex(), out); }) == "");
    CHECK((files_below(out) == files_below(world / expected)));
  }
}

TEST_CASE("a commit is read like a checkpoint on disk") {
  const World world;
  world.push_step(0);
  world.push_step(1);
  const auto repository = std::make_shared<Repository>(world.repository());
  const SilentExecution execution;
  for (const int step : {0, 1}) {
    const Commit commit = repository->commit(repository->resolve("step:" + std::to_string(step)));
    const Checkpoint checkpoint = checkpoint_of(repository, commit, best_engine(), execution);
    Files files;
    for (const CheckpointFile& file : checkpoint.files()) files[file.path] = text_of(read_all(*file.open()));
    CHECK((files == commit_files(step)));
  }
}

TEST_CASE("paths and messages that are not UTF-8 are refused or taken, never an internal error") {
  const World world;
  CommitDraft draft;
  draft.message = "caf\xe9";
  // An exception that is no Error would fail the test.
  fault_of([&] { world.push(world.checkpoint(0), {}, draft, SilentExecution()); });
  draft.message = "";
  draft.author = "\xff";
  fault_of([&] { world.push(world.checkpoint(0), {}, draft, SilentExecution()); });
  write_checkpoint(world / "caf\xe9", 0);
  fault_of([&] { world.push(world / "caf\xe9"); });
  const ScratchDirectory scratch;
  const fs::path odd = scratch / "r\xe9po";
  fs::copy(world.repository_path(), odd, fs::copy_options::recursive);
  fault_of([&] {
    const Repository from = Repository::open(odd);
    pull(from, from.commit(from.resolve("main")), scratch / "out", LocalChanges::refuse, best_engine(),
         SilentExecution());
  });
}

}  // namespace wdelta
