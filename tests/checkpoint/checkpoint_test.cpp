// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.hpp"

#include "base/output_file.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <sys/stat.h>

namespace wdelta {

namespace fs = std::filesystem;
using testing::fault_of;
using testing::put_file;
using testing::ScratchDirectory;

namespace {

std::vector<std::string> places(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const CheckpointFile& file : checkpoint.files()) names.push_back(file.path);
  return names;
}

std::string content(const CheckpointFile& file) { return testing::text_of(read_all(*file.open())); }

std::optional<Fault> opening(const fs::path& path, Shards shards = Shards::required) {
  return fault_of([&] { Checkpoint::open(path, shards); });
}

}  // namespace

TEST_CASE("a directory's files are found at any depth and come ordered by the bytes of their paths") {
  ScratchDirectory scratch;
  std::vector<std::string> names = {"b.txt", "a/z", "a.txt", "a/b/c", "a b", "Z", "größe", "a-", ".hidden", "a/.x"};
  for (const std::string& name : names) put_file(scratch / name, name);
  std::ranges::sort(names);
  const Checkpoint checkpoint = Checkpoint::open(scratch.path());
  CHECK(places(checkpoint) == names);
  CHECK_FALSE(checkpoint.is_single_file());
  for (const CheckpointFile& file : checkpoint.files()) {
    CHECK(content(file) == file.path);
    CHECK(file.size_bytes == file.path.size());
    CHECK(file.stamp == stamp_of(scratch / file.path));
    CHECK(checkpoint.find(file.path) == &file);
  }
  CHECK(checkpoint.find("a") == nullptr);
  CHECK(checkpoint.find("zzz") == nullptr);
}

TEST_CASE("files that are one where case does not count can be looked at, and not kept") {
  for (const auto& [first, second] : {std::pair("a.txt", "A.txt"), {"x/a", "X/b"}, {"x/y/a", "x/Y"}}) {
    ScratchDirectory scratch;
    put_file(scratch / first, "1");
    put_file(scratch / second, "2");
    CHECK(testing::fault_of([&] { Checkpoint::open(scratch.path()); }) == Fault::unsupported);
    CHECK(Checkpoint::open(scratch.path(), Shards::any).files().size() == 2);
  }
}

TEST_CASE("an empty directory is a checkpoint without files") {
  ScratchDirectory scratch;
  CHECK(Checkpoint::open(scratch.path()).files().empty());
}

TEST_CASE("what belongs to wdelta, git and the Hub's cache is left out, and only that") {
  ScratchDirectory scratch;
  for (const char* name : {".wdelta/state.json", ".git/config", ".cache/huggingface/token", "sub/.git/HEAD",
                           "sub/.wdelta/lock", ".model.safetensors.wdelta-a1b2c3", "sub/.x.wdelta-00ffee"}) {
    put_file(scratch / name, "x");
  }
  std::vector<std::string> kept = {".cache/other",      ".gitattributes",   "huggingface/a", "x.wdelta-a1b2c3",
                                   ".x.wdelta-a1b2c3d", ".x.wdelta-backup", "git",           ".wdeltas"};
  for (const std::string& name : kept) put_file(scratch / name, "x");
  std::ranges::sort(kept);
  CHECK(places(Checkpoint::open(scratch.path())) == kept);
}

TEST_CASE("the temporary file of an output at work is no part of a checkpoint") {
  ScratchDirectory scratch;
  put_file(scratch / "model.safetensors", "x");
  for (const std::string& name : {std::string("model.safetensors"), std::string(250, 'n')}) {
    const OutputFile output(scratch / name);
    CHECK(places(Checkpoint::open(scratch.path())) == std::vector<std::string>{"model.safetensors"});
  }
}

TEST_CASE("symlinks to files are followed, as in a Hub cache snapshot") {
  ScratchDirectory scratch;
  put_file(scratch / "blobs/1234", "weights");
  fs::create_directory(scratch / "snapshot");
  fs::create_symlink("../blobs/1234", scratch / "snapshot/model.safetensors");
  fs::create_directory_symlink("snapshot", scratch / "link");
  for (const char* name : {"snapshot", "link"}) {
    const Checkpoint checkpoint = Checkpoint::open(scratch / name);
    REQUIRE(places(checkpoint) == std::vector<std::string>{"model.safetensors"});
    CHECK(content(checkpoint.files().front()) == "weights");
  }
}

TEST_CASE("what is neither a file nor a directory, or leads nowhere, is refused as local, or told apart") {
  const auto refused_with = [](auto make) {
    ScratchDirectory scratch;
    put_file(scratch / "a", "x");
    make(scratch / "thing");
    CHECK(opening(scratch.path()) == Fault::local);
    const Checkpoint checkpoint = Checkpoint::open(scratch.path(), Shards::any, {}, Others::tell_apart);
    CHECK(places(checkpoint) == std::vector<std::string>{"a"});
    CHECK(checkpoint.others() == std::vector<std::string>{"thing"});
  };
  refused_with([](const fs::path& path) { fs::create_symlink("absent", path); });
  refused_with([](const fs::path& path) { fs::create_symlink(path.filename(), path); });
  refused_with([](const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
  refused_with([](const fs::path& path) { fs::create_directory_symlink(".", path); });
}

TEST_CASE("a file that goes before it is opened is a local matter: a checkpoint was there") {
  ScratchDirectory scratch;
  put_file(scratch / "a", "x");
  const Checkpoint checkpoint = Checkpoint::open(scratch.path());
  fs::remove(scratch / "a");
  CHECK(fault_of([&] { checkpoint.files().front().open(); }) == Fault::local);
}

TEST_CASE("what is added, removed or written since a checkpoint was opened is noticed, whatever it held") {
  const auto after = [](std::initializer_list<const char*> files, auto change, auto... how) {
    ScratchDirectory scratch;
    const fs::path directory = scratch / "checkpoint";
    fs::create_directory(directory);
    for (const char* name : files) put_file(directory / name, "x");
    if (sizeof...(how) > 2) fs::create_symlink("absent", directory / "other");
    const Checkpoint checkpoint = Checkpoint::open(directory, how...);
    change(directory);
    return fault_of([&] { checkpoint.check_unchanged(); });
  };
  const auto nothing = [](const fs::path&) {};
  const auto add = [](const fs::path& directory) { put_file(directory / "new.log", "x"); };
  const auto go = [](const fs::path& directory) { fs::remove_all(directory); };
  for (const std::initializer_list<const char*> files : {std::initializer_list<const char*>{}, {"a", "b"}}) {
    CHECK(after(files, nothing) == std::nullopt);
    CHECK(after(files, add) == Fault::local);
    CHECK(after(files, go) == Fault::local);
    CHECK(after(files, [](const fs::path& directory) { fs::create_symlink("absent", directory / "new"); }) ==
          Fault::local);
    CHECK(after(files, [](const fs::path& directory) { put_file(directory / "caf\xe9.txt", "x"); }) == Fault::local);
    PathFilter filter;
    filter.exclude("*.log");
    CHECK(after(files, add, Shards::any, filter) == std::nullopt);
    // Where what a commit cannot hold is told apart.
    CHECK(after(files, nothing, Shards::any, PathFilter(), Others::tell_apart) == std::nullopt);
    CHECK(after(files, add, Shards::any, PathFilter(), Others::tell_apart) == Fault::local);
    CHECK(after(
              files, [](const fs::path& directory) { fs::remove(directory / "other"); }, Shards::any, PathFilter(),
              Others::tell_apart) == Fault::local);
  }
  CHECK(after({"a"}, [](const fs::path& directory) { put_file(directory / "a", "longer"); }) == Fault::local);
  CHECK(after({"a"}, [](const fs::path& directory) { fs::remove(directory / "a"); }) == Fault::local);
}

TEST_CASE("a name that could not be kept is refused as unsupported") {
  for (const std::string name : {"\xff", "caf\xe9.txt", "a\\b", "line\nbreak", "tab\t", "sub/\xed\xa0\x80"}) {
    CAPTURE(name);
    ScratchDirectory scratch;
    put_file(scratch / name, "x");
    CHECK(opening(scratch.path()) == Fault::unsupported);
  }
}

TEST_CASE("an index that names a shard which is not there is refused, unless any shards will do") {
  const auto index = [](std::string_view shard) {
    return "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"" + std::string(shard) + "\"}}";
  };
  for (const char* folder : {"", "sub/"}) {
    ScratchDirectory scratch;
    const std::string below(folder);
    put_file(scratch / (below + "1.safetensors"), "x");
    put_file(scratch / (below + "model.safetensors.index.json"), index("2.safetensors"));
    CHECK(opening(scratch.path()) == Fault::local);
    CHECK(opening(scratch.path(), Shards::any) == std::nullopt);
    put_file(scratch / (below + "2.safetensors"), "x");
    CHECK(opening(scratch.path()) == std::nullopt);
    put_file(scratch / (below + "model.safetensors.index.json"), index("../2.safetensors"));
    CHECK(opening(scratch.path()) == Fault::local);
    for (const char* cut : {"", "{", R"({"weight_map":{"a":"1.safeten)"}) {
      put_file(scratch / (below + "model.safetensors.index.json"), cut);
      CHECK(opening(scratch.path()) == Fault::local);
    }
  }
}

TEST_CASE("an index of another form names no shards") {
  ScratchDirectory scratch;
  for (const char* text :
       {"[]", "1", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})", R"({"metadata":{}})"}) {
    put_file(scratch / "model.safetensors.index.json", text);
    CHECK(opening(scratch.path()) == std::nullopt);
  }
}

TEST_CASE("one file is a checkpoint of its own name") {
  ScratchDirectory scratch;
  put_file(scratch / "some.safetensors", "weights");
  fs::permissions(scratch / "some.safetensors", fs::perms::owner_all);
  fs::create_symlink("some.safetensors", scratch / "link.safetensors");
  for (const std::string name : {"some.safetensors", "link.safetensors"}) {
    const Checkpoint checkpoint = Checkpoint::open(scratch / name);
    CHECK(checkpoint.is_single_file());
    REQUIRE(places(checkpoint) == std::vector<std::string>{name});
    CHECK(content(checkpoint.files().front()) == "weights");
    CHECK(checkpoint.files().front().executable);
  }
  CHECK(opening(scratch / "absent") == Fault::not_found);
  fs::create_symlink("absent", scratch / "dangling");
  CHECK(opening(scratch / "dangling") == Fault::not_found);
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK(opening(scratch / "fifo") == Fault::local);
  // What cannot be looked at may be there.
  fs::create_symlink("circle", scratch / "circle");
  CHECK(opening(scratch / "circle") == Fault::local);
}

TEST_CASE("weights and what loaders pick up are told by name") {
  CHECK(is_weights("a/model.safetensors"));
  CHECK_FALSE(is_weights("model.safetensors.index.json"));
  CHECK_FALSE(is_weights("model.bin"));
  CHECK(is_loaded_by_name("model.safetensors"));
  CHECK(is_loaded_by_name("sub/model.safetensors.index.json"));
  CHECK_FALSE(is_loaded_by_name("config.json"));
}

}  // namespace wdelta
