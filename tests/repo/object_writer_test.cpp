// SPDX-License-Identifier: Apache-2.0
#include "repo/object_writer.hpp"

#include "delta/deltas.hpp"
#include "store/directory_store.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <set>

namespace wdelta {

using namespace testing;

namespace {

constexpr std::size_t k_small = ObjectWriter::k_pack_file_bytes;

/// A store and what was put into it.
class Written {
 public:
  Written() { std::filesystem::create_directories(scratch_ / "store"); }
  ObjectWriter writer() { return ObjectWriter(store_, known_, execution_); }
  DirectoryStore& store() { return store_; }
  RecipeGraph& known() { return known_; }

  /// Checks the law of every writer: each recipe names bytes that are there, in an object that has its digest, which
  /// are the file or a delta that has this result; nothing is in an object that no recipe names. Returns the objects.
  std::map<std::string, std::string> check(const ObjectWriter& writer) const {
    std::map<std::string, std::string> objects;
    for (auto& [key, content] : files_below(scratch_ / "store")) {
      if (key.starts_with("staging/")) continue;
      const std::string name = key.substr(key.rfind('/') + 1);
      CHECK(key == object_key(name));
      CHECK(object_digest(name) == blake3(content));
      objects.emplace(name, content);
    }
    std::map<std::string, std::size_t> named;
    std::set<Digest> files;
    std::uint64_t bytes = 0;
    for (const Recipe& recipe : writer.recipes()) {
      REQUIRE(objects.contains(recipe.bytes.object));
      const std::string& object = objects.at(recipe.bytes.object);
      REQUIRE(recipe.bytes.offset + recipe.bytes.length <= object.size());
      const Bytes content = bytes_of(object.substr(recipe.bytes.offset, recipe.bytes.length));
      if (recipe.is_delta) {
        const auto delta = open_delta(content);
        delta->check_payload(SilentExecution());
        CHECK(delta->description().result.digest == recipe.digest);
        CHECK(delta->description().result.size_bytes == recipe.size_bytes);
      } else {
        CHECK(blake3(content) == recipe.digest);
        CHECK(content.size() == recipe.size_bytes);
      }
      CHECK(writer.has(recipe.digest));
      CHECK(files.insert(recipe.digest).second);
      named[recipe.bytes.object] += content.size();
      bytes += content.size();
    }
    for (const auto& [name, content] : objects) CHECK(named[name] == content.size());
    CHECK(writer.stored_bytes() == bytes);
    return objects;
  }

 private:
  ScratchDirectory scratch_;
  DirectoryStore store_{scratch_ / "store"};
  RecipeGraph known_;
  SilentExecution execution_;
};

std::shared_ptr<const ByteReader> reader(const Bytes& bytes) { return std::make_shared<MemoryReader>(bytes, "memory"); }

}  // namespace

TEST_CASE("small files share objects, large ones have their own, and all come back") {
  std::mt19937_64 random(seed());
  Written written;
  ObjectWriter writer = written.writer();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, k_small, k_small + 1}) {
    for (const char* path : {"a.bin", "b.safetensors"}) {
      const Bytes bytes = random_bytes(random, size);
      const Digest digest = blake3(bytes);
      if (size > 0) CHECK_FALSE(writer.has(digest));
      CHECK(writer.put_whole(reader(bytes), path) == digest);
      CHECK(writer.has(digest));
    }
  }
  writer.finish();
  const auto objects = written.check(writer);
  CHECK(objects.size() == 3);  // a pack, and two large files
  CHECK(writer.recipes().size() == 9);
  std::size_t weights = 0;
  for (const auto& [name, content] : objects) weights += name.ends_with(".safetensors") ? 1 : 0;
  CHECK(weights == 1);
}

TEST_CASE("thousands of small files cost few objects, none of which is much larger than a pack may be") {
  std::mt19937_64 random(seed());
  Written written;
  ObjectWriter writer = written.writer();
  std::uint64_t total = 0;
  for (int i = 0; i < 3000; ++i) {
    const Bytes bytes = random_bytes(random, random() % 25'000);
    total += bytes.size();
    writer.put_whole(bytes, i % 2 == 0 ? "x.safetensors" : "x.txt");
  }
  writer.finish();
  const auto objects = written.check(writer);
  CHECK(objects.size() == total / ObjectWriter::k_pack_bytes + 1);
  for (const auto& [name, content] : objects) {
    CHECK(content.size() <= ObjectWriter::k_pack_bytes + k_small);
    CHECK_FALSE(name.ends_with(".safetensors"));
  }
}

TEST_CASE("what is alone in its pack is an object as any other, with the name that says what it is") {
  std::mt19937_64 random(seed());
  for (const char* path : {"x.safetensors", "x.bin"}) {
    Written written;
    ObjectWriter writer = written.writer();
    const Digest digest = writer.put_whole(random_bytes(random, 100), path);
    writer.finish();
    writer.finish();
    const auto objects = written.check(writer);
    REQUIRE(objects.size() == 1);
    CHECK(objects.begin()->first == digest.hex() + (is_weights(path) ? ".safetensors" : ""));
  }
}

TEST_CASE("the same bytes are stored once, whatever they are called and however they came") {
  std::mt19937_64 random(seed());
  Written written;
  ObjectWriter writer = written.writer();
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, k_small, k_small + 5}) {
    const Bytes bytes = random_bytes(random, size);
    writer.put_whole(reader(bytes), "a.bin");
    const std::uint64_t stored = writer.stored_bytes();
    writer.put_whole(reader(bytes), "b.bin");
    writer.put_whole(reader(bytes), "c.safetensors");
    if (size <= k_small) writer.put_whole(bytes, "d");
    CHECK(writer.stored_bytes() == stored);
  }
  writer.finish();
  CHECK(written.check(writer).size() == 2);
  CHECK(writer.recipes().size() == 4);
}

TEST_CASE("what can be made already is not put again, large or small") {
  std::mt19937_64 random(seed());
  for (const std::size_t size : {std::size_t{100}, k_small + 5}) {
    Written written;
    const Bytes bytes = random_bytes(random, size);
    const Digest digest = blake3(bytes);
    written.known().add({{digest, size, {digest.hex(), 0, size}, false, {}}});
    written.known().settle();
    ObjectWriter writer = written.writer();
    CHECK(writer.put_whole(reader(bytes), "a.bin") == digest);
    CHECK(writer.put_whole(bytes, "a.safetensors") == digest);
    writer.finish();
    CHECK(written.check(writer).empty());
    CHECK(writer.recipes().empty());
  }
}

TEST_CASE("small deltas share objects with small files, a large one has its own") {
  std::mt19937_64 random(seed());
  Written written;
  ObjectWriter writer = written.writer();
  const auto put = [&](std::size_t size, double density) {
    const Bytes base = random_bytes(random, size);
    const PlacedFile next{"x.bin", with_changes(base, 1, density, random)};
    FileChange change = diff_opaque_file(OpaqueBase{"x.bin", std::make_shared<MemoryReader>(base, "base")}, next.path,
                                         reader_of(next), *dtype_named("U8"), written.store().staging_path(),
                                         {BlockChoice::unknown_bytes}, best_engine(), SilentExecution());
    writer.put_delta(std::move(*change.delta), change.description);
    CHECK(writer.has(blake3(next.bytes)));
    return blake3(base);
  };
  std::vector<Digest> bases;
  for (int i = 0; i < 5; ++i) bases.push_back(put(200'000, 0.01));
  writer.put_whole(random_bytes(random, 100), "y.txt");
  bases.push_back(put(3 * k_small, 0.9));
  writer.finish();
  CHECK(written.check(writer).size() == 2);
  std::vector<Digest> named;
  for (const Recipe& recipe : writer.recipes()) {
    CHECK(recipe.is_delta == (recipe.base.size() == 1));
    named.insert(named.end(), recipe.base.begin(), recipe.base.end());
  }
  std::ranges::sort(named);
  std::ranges::sort(bases);
  CHECK(named == bases);
}

}  // namespace wdelta
