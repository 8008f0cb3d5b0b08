// SPDX-License-Identifier: Apache-2.0
// Deltas of checkpoints on disk: diff_checkpoints() and apply_checkpoint().
#include "base/json.hpp"
#include "delta/apply_checkpoint.hpp"
#include "delta/delta_list.hpp"
#include "delta/deltas.hpp"
#include "delta/diff_checkpoint.hpp"
#include "delta/place_turns.hpp"
#include "testing/fault.hpp"
#include "testing/host_device.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <map>

namespace wdelta {

namespace fs = std::filesystem;
using namespace testing;

namespace {

/// A checkpoint of two shards and side files; `step` says how far training went.
void write_checkpoint(const fs::path& directory, int step) {
  std::mt19937_64 random(1);
  std::vector<TestTensor> tensors;
  for (const char* name : {"a", "b", "c", "d"}) tensors.push_back(random_tensor(name, {"BF16", 16}, 66'000, random));
  std::mt19937_64 steps(2);
  for (int i = 0; i < step; ++i) tensors = with_changes(tensors, 0.01, steps);
  // At step 2 the shards are cut otherwise and named otherwise.
  const std::ptrdiff_t cut = step < 2 ? 1 : 3;
  const std::string name = step < 2 ? "model-" : "weights/part-";
  put_file(directory / (name + "1.safetensors"), safetensors_file({tensors.begin(), tensors.begin() + cut}));
  put_file(directory / (name + "2.safetensors"), safetensors_file({tensors.begin() + cut, tensors.end()}));
  put_file(directory / "config.json", "{}");
  put_file(directory / "trainer.txt", "step " + std::to_string(step));
  put_file(directory / ("only-" + std::to_string(step)), "x");
  put_file(directory / "run.sh", "#!/bin/sh");
  if (step == 1) fs::permissions(directory / "run.sh", fs::perms::owner_all);
}

std::map<std::string, bool> executables(const fs::path& directory) {
  std::map<std::string, bool> found;
  const Checkpoint checkpoint = Checkpoint::open(directory);
  for (const CheckpointFile& file : checkpoint.files()) found[file.path] = file.executable;
  return found;
}

CheckpointChange diff(const fs::path& base, const fs::path& next, const std::optional<fs::path>& output) {
  return diff_checkpoints(Checkpoint::open(base), Checkpoint::open(next), output, BlockChoice::automatic, best_engine(),
                          SilentExecution(2));
}
void apply(const fs::path& base, const std::vector<fs::path>& deltas, const fs::path& output) {
  apply_checkpoint(Checkpoint::open(base), deltas, output, best_engine(), SilentExecution(2));
}

struct Run3 {
  ScratchDirectory scratch;
  fs::path at(int step) const { return scratch / ("step-" + std::to_string(step)); }
  fs::path delta(int from, int to) const { return scratch / ("delta-" + std::to_string(from) + std::to_string(to)); }
  Run3() {
    for (int step : {0, 1, 2}) write_checkpoint(at(step), step);
  }
};

}  // namespace

TEST_CASE("the delta of two directories makes the second out of the first, forwards and backwards") {
  const Run3 run;
  for (const auto& steps : {std::pair(0, 1), {1, 0}, {0, 2}, {2, 0}, {1, 2}, {1, 1}}) {
    const auto& from = steps.first;
    const auto& to = steps.second;
    CAPTURE(from);
    CAPTURE(to);
    const CheckpointChange change = diff(run.at(from), run.at(to), run.delta(from, to));
    CHECK(change.any() == (from != to));
    const fs::path out = run.scratch / ("out" + std::to_string(10 * from + to));
    apply(run.at(from), {run.delta(from, to)}, out);
    CHECK(files_below(out) == files_below(run.at(to)));
    CHECK(executables(out) == executables(run.at(to)));
  }
}

TEST_CASE("a device writes files in lanes where it has the memory for all threads, and one by one else") {
  const Engine& engine = host_device_engine();
  const Run3 run;
  diff(run.at(0), run.at(1), run.delta(0, 1));
  const std::vector<std::uint64_t> sizes_bytes(8, std::uint64_t{1} << 30);
  for (const bool is_small : {false, true}) {
    CAPTURE(is_small);
    const RoomOfHostDevice room(std::int64_t{is_small ? 256 : 4096} << 20);
    const FileTurns turns = place_turns(sizes_bytes, engine, 16, {.writes_file = true});
    CHECK(turns.side_by_side.empty());
    CHECK(turns.lanes.size() == (is_small ? 1 : 8));
    CHECK(place_turns(sizes_bytes, engine, 16).lanes.size() == 1);
    const fs::path out = run.scratch / (is_small ? "small" : "large");
    apply_checkpoint(Checkpoint::open(run.at(0)), {run.delta(0, 1)}, out, engine, SilentExecution(16));
    CHECK(files_below(out) == files_below(run.at(1)));
  }
}

TEST_CASE("several directory deltas apply in one pass, and only in their order") {
  const Run3 run;
  diff(run.at(0), run.at(1), run.delta(0, 1));
  diff(run.at(1), run.at(2), run.delta(1, 2));
  apply(run.at(0), {run.delta(0, 1), run.delta(1, 2)}, run.scratch / "out");
  CHECK(files_below(run.scratch / "out") == files_below(run.at(2)));
  const std::vector<fs::path> turned = {run.delta(1, 2), run.delta(0, 1)};
  CHECK(fault_of([&] { apply(run.at(0), turned, run.scratch / "no"); }) == Fault::base_mismatch);
  CHECK(fault_of([&] { apply(run.at(1), {run.delta(0, 1)}, run.scratch / "no"); }) == Fault::base_mismatch);
  CHECK_FALSE(fs::exists(run.scratch / "no"));
}

TEST_CASE("a directory delta with any of its files damaged or missing leaves no output") {
  const Run3 run;
  diff(run.at(0), run.at(1), run.delta(0, 1));
  const fs::path delta = run.delta(0, 1);
  int looked_at = 0;
  for (const auto& file : files_below(delta)) {
    const auto& place = file.first;
    const auto& content = file.second;
    CAPTURE(place);
    ++looked_at;
    for (const std::size_t at : {std::size_t{0}, content.size() / 2, content.size() - 1}) {
      std::string changed = content;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      put_file(delta / place, changed);
      CHECK(fault_of([&] { apply(run.at(0), {delta}, run.scratch / "no"); }) == Fault::corrupt);
    }
    fs::remove(delta / place);
    CHECK(fault_of([&] { apply(run.at(0), {delta}, run.scratch / "no"); }).has_value());
    CHECK_FALSE(fs::exists(run.scratch / "no"));
    put_file(delta / place, content);
  }
  CHECK(looked_at >= 4);
  apply(run.at(0), {delta}, run.scratch / "yes");
}

TEST_CASE("deltas of single files apply whatever the names of base and output, in a chain too") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  ScratchDirectory scratch;
  auto tensors = std::vector{random_tensor("a", {"BF16", 16}, 70'000, random)};
  std::vector<fs::path> files;
  std::vector<fs::path> deltas;
  for (int i = 0; i < 4; ++i) {
    files.push_back(scratch / ("step" + std::to_string(i) + ".safetensors"));
    put_file(files.back(), safetensors_file(tensors));
    tensors = with_changes(tensors, 0.02, random);
    if (i == 0) continue;
    deltas.push_back(scratch / ("delta" + std::to_string(i)));
    diff(files[files.size() - 2], files.back(), deltas.back());
  }
  fs::copy_file(files[0], scratch / "renamed.safetensors");
  apply(scratch / "renamed.safetensors", deltas, scratch / "out.safetensors");
  CHECK(get_file(scratch / "out.safetensors") == get_file(files[3]));
  apply(files[2], {deltas[2]}, scratch / "out.safetensors");
  CHECK(get_file(scratch / "out.safetensors") == get_file(files[3]));
  const std::vector<fs::path> gap = {deltas[0], deltas[2]};
  CHECK(fault_of([&] { apply(files[0], gap, scratch / "no"); }) == Fault::base_mismatch);
  CHECK_FALSE(fs::exists(scratch / "no"));
}

TEST_CASE("a delta list reads back, and every cut and every flipped byte of it is refused as corrupt") {
  DeltaList list;
  list.files.push_back({{"a/b.safetensors", 10, blake3("x")}, false, ListedAs::delta});
  list.files.push_back({{"config.json", 2, blake3("y")}, true, ListedAs::file});
  list.files.push_back({{"größe", 0, blake3("")}, false, ListedAs::same});
  list.removed = {"gone", "gone/too"};
  const std::string text = to_text(list);
  const DeltaList back = delta_list_from(text, "list");
  REQUIRE(back.files.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(back.files[i].identity == list.files[i].identity);
    CHECK(back.files[i].executable == list.files[i].executable);
    CHECK(back.files[i].as == list.files[i].as);
  }
  CHECK(back.removed == list.removed);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (fault_of([&] { delta_list_from(text.substr(0, at), "list"); }) != Fault::corrupt) FAIL("cut at ", at);
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      if (fault_of([&] { delta_list_from(changed, "list"); }) != Fault::corrupt) FAIL("byte ", at, ", bit ", bit);
    }
  }
}

TEST_CASE("a sealed delta list with places that lead elsewhere or members of another form is refused") {
  const auto with = [](const std::function<void(Json&)>& edit) {
    Json json = {
        {"format", "wdelta-delta-directory"},
        {"version", 1},
        {"files",
         {{{"path", "a"}, {"size", 1}, {"digest", std::string(64, 'a')}, {"executable", false}, {"as", "file"}}}},
        {"removed", {"b"}}};
    edit(json);
    return fault_of([&] { delta_list_from(seal(json), "list"); });
  };
  REQUIRE(with([](Json&) {}) == std::nullopt);
  for (const char* path : {"/a", "../a", "a/../b", "", ".wdelta/x", "a\\b", "a//b", "a\n"}) {
    CHECK(with([&](Json& json) { json["files"][0]["path"] = path; }) == Fault::corrupt);
    CHECK(with([&](Json& json) { json["removed"][0] = path; }) == Fault::corrupt);
  }
  CHECK(with([](Json& json) { json["files"][0]["as"] = "other"; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["files"][0]["digest"] = std::string(64, 'A'); }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["files"][0]["size"] = -1; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["files"].push_back(json["files"][0]); }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["files"] = Json::object(); }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["removed"][0] = 1; }) == Fault::corrupt);
  CHECK(with([](Json& json) { json.erase("removed"); }) == Fault::corrupt);
  CHECK(with([](Json& json) { json["version"] = 2; }) == Fault::unsupported);
}

}  // namespace wdelta
