// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a file are looked for in its base.
#include "delta/tensor_sources.hpp"

#include "delta/base_files.hpp"
#include "delta/deltas.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace wdelta {

using namespace testing;

namespace {

/// What find_sources() says of `next`, as "FILE:TENSOR" by tensor; "afresh" for none.
std::map<std::string, std::string> sources_of(const OrderedBase& base, const PlacedFile& next) {
  const auto reader = reader_of(next);
  const SafetensorsHeader header = SafetensorsHeader::read(*reader);
  const TensorSources sources = find_sources(base, header, *reader, testing::SilentExecution());
  REQUIRE(sources.places.size() == header.tensors().size());
  if (base.empty()) {
    REQUIRE(sources.files.empty());
  } else {
    REQUIRE(sources.files.front() == &base.front());
  }
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < sources.places.size(); ++i) {
    const Tensor& tensor = header.tensors()[i];
    const auto exception = sources.exceptions.find(tensor.name);
    std::optional<Source> source;
    if (exception != sources.exceptions.end()) {
      source = exception->second;
    } else if (!base.empty()) {
      source = Source{0, tensor.name};
    }
    const TensorSources::Place& place = sources.places[i];
    REQUIRE(source.has_value() == (place.file != nullptr));
    found[tensor.name] = "afresh";
    if (!source) continue;
    // The place is that of the source, and every file that is named is used.
    const BaseFile& file = *sources.files.at(source->file);
    const Tensor* there = file.file->header().find(source->tensor);
    REQUIRE(there != nullptr);
    REQUIRE(there->has_elements_like(tensor));
    REQUIRE(place.file == file.file.get());
    REQUIRE(place.begin == there->begin);
    found[tensor.name] = file.path + ":" + source->tensor;
  }
  return found;
}

std::vector<BaseFile> base_of(const std::vector<PlacedFile>& files) {
  std::vector<BaseFile> base;
  for (const PlacedFile& file : files) base.push_back({file.path, RebuiltFile::from_file(reader_of(file))});
  return base;
}

std::map<std::string, std::string> sources_of(const std::vector<PlacedFile>& base, const PlacedFile& next) {
  return sources_of(base_of(base), next);
}

PlacedFile shard_of(const std::vector<TestTensor>& tensors, std::string path = "m") {
  return {std::move(path), safetensors_file(tensors)};
}

/// Weights as they are drawn before training: normal around zero.
TestTensor drawn_weights(std::string name, std::uint64_t count, std::mt19937_64& random, const char* dtype = "BF16") {
  TestTensor tensor{std::move(name), dtype, {count}, {}};
  std::normal_distribution<float> normal(0, 0.02F);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(normal(random));
    for (unsigned shift = tensor.dtype == "F32" ? 0 : 16; shift < 32; shift += 8)
      tensor.bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
  }
  return tensor;
}

/// A step of training: every element moves, by up to one in two hundred.
TestTensor trained(TestTensor tensor, std::mt19937_64& random) {
  const std::size_t width = dtype_named(tensor.dtype)->width_bytes;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += width) {
    if (width == 4) tensor.bytes[at + 1] ^= static_cast<std::uint8_t>(random() % 128);
    tensor.bytes[at] ^= 1;
  }
  return tensor;
}

TestTensor renamed(TestTensor tensor, std::string name) {
  tensor.name = std::move(name);
  return tensor;
}

TestTensor constant(std::string name, std::uint64_t count) {
  TestTensor tensor{std::move(name), "BF16", {count}, {}};
  for (std::uint64_t i = 0; i < count; ++i) tensor.bytes.insert(tensor.bytes.end(), {0x80, 0x3f});
  return tensor;
}

/// The law whatever the sources are: a wrong guess costs bytes, never bits. Returns the bytes of the delta.
std::size_t delta_bytes(const std::vector<PlacedFile>& base, const PlacedFile& next) {
  const Bytes delta = make_delta(base, next).bytes;
  REQUIRE((apply_delta(delta, base) == next.bytes));
  return delta.size();
}

}  // namespace

TEST_CASE("tensors that were renamed are found by what is in them, of whatever dtype and though all elements moved") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const char* dtype : {"BF16", "F32"}) {
    CAPTURE(dtype);
    std::vector<TestTensor> before;
    for (int i = 0; i < 100; ++i)
      before.push_back(drawn_weights(std::to_string(i) + ".attn.weight", 1000, random, dtype));
    const PlacedFile base = shard_of(before);
    const auto check = [&](const std::function<std::string(int)>& name) {
      std::vector<TestTensor> after;
      for (int i = 0; i < 100; ++i)
        after.push_back(renamed(trained(before[static_cast<std::size_t>(i)], random), name(i)));
      for (const bool shuffled : {false, true}) {
        if (shuffled) std::shuffle(after.begin(), after.end(), random);
        const auto found = sources_of({base}, shard_of(after));
        for (int i = 0; i < 100; ++i) CHECK(found.at(name(i)) == "m:" + std::to_string(i) + ".attn.weight");
      }
      CHECK(delta_bytes({base}, shard_of(after)) < shard_of(after).bytes.size() / 2);
    };
    check([](int i) { return "model." + std::to_string(i) + ".attn.weight"; });
    check([](int i) { return "model.layers." + std::to_string(i) + ".attn.weight"; });
  }
}

TEST_CASE("tensors whose new names have nothing of the old ones are found where their order stays") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> before;
  std::vector<TestTensor> after;
  for (int i = 0; i < 200; ++i) {
    before.push_back(drawn_weights("h." + std::to_string(i) + ".c_attn", 600, random));
    after.push_back(renamed(trained(before.back(), random), "block_" + std::to_string(i) + "/qkv"));
  }
  const auto found = sources_of({shard_of(before)}, shard_of(after));
  for (int i = 0; i < 200; ++i) {
    REQUIRE(found.at("block_" + std::to_string(i) + "/qkv") == "m:h." + std::to_string(i) + ".c_attn");
  }
}

TEST_CASE("names that are there are believed: two that were swapped cost bytes, not bits") {
  std::mt19937_64 random(seed());
  const TestTensor a = drawn_weights("a", 3000, random);
  const TestTensor b = drawn_weights("b", 3000, random);
  const PlacedFile base = shard_of({a, b});
  const PlacedFile next = shard_of({renamed(b, "a"), renamed(a, "b")});
  CHECK(sources_of({base}, next) == std::map<std::string, std::string>{{"a", "m:a"}, {"b", "m:b"}});
  CHECK(delta_bytes({base}, next) < 4 * next.bytes.size());
}

TEST_CASE("layers behind one that was dropped or inserted are found under the numbers that they had") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto name = [](int layer, const char* part) { return "model.layers." + std::to_string(layer) + part; };
  constexpr std::array<const char*, 3> k_parts = {".mlp.up.weight", ".mlp.down.weight", ".norm.weight"};
  std::vector<std::vector<TestTensor>> layers;
  for (int i = 0; i < 90; ++i) {
    layers.push_back({});
    for (const char* part : k_parts) layers.back().push_back(drawn_weights(name(i, part), 600, random));
  }
  std::vector<TestTensor> before;
  for (const auto& layer : layers) before.insert(before.end(), layer.begin(), layer.end());
  // As (how many layers stay as they are, how many are dropped behind them).
  for (const auto& [stay, dropped] : {std::pair(41, 1), std::pair(0, 2), std::pair(88, 1), std::pair(30, 8)}) {
    CAPTURE(stay);
    std::vector<TestTensor> after;
    std::map<std::string, std::string> expected;
    for (int i = 0; i < 90 - dropped; ++i) {
      const int was = i < stay ? i : i + dropped;
      for (std::size_t part = 0; part < k_parts.size(); ++part) {
        after.push_back(renamed(trained(layers[static_cast<std::size_t>(was)][part], random), name(i, k_parts[part])));
        expected[name(i, k_parts[part])] = "m:" + name(was, k_parts[part]);
      }
    }
    // Where few layers have moved, those tensors that are looked at may show none.
    if (stay < 80) {
      CHECK(sources_of({shard_of(before)}, shard_of(after)) == expected);
      // And inserted again.
      const auto inserted = sources_of({shard_of(after)}, shard_of(before));
      for (const auto& [now, was] : expected) CHECK(inserted.at(was.substr(2)) == "m:" + now);
    }
    CHECK(delta_bytes({shard_of(before)}, shard_of(after)) < shard_of(after).bytes.size() * 2 / 3);
  }
}

TEST_CASE("tensors with other names in other files are found by the numbers of their layers") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  constexpr std::array<std::pair<const char*, const char*>, 4> k_parts = {{{".self_attn.q_proj", ".attention.wq"},
                                                                           {".self_attn.o_proj", ".attention.wo"},
                                                                           {".mlp.gate", ".ffn.w1"},
                                                                           {".mlp.up", ".ffn.w3"}}};
  std::vector<PlacedFile> shards;
  std::vector<TestTensor> whole;
  std::map<std::string, std::string> expected;
  for (int shard = 0; shard < 3; ++shard) {
    std::vector<TestTensor> tensors;
    for (int layer = 20 * shard; layer < 20 * shard + 20; ++layer) {
      for (const auto& [hf, other] : k_parts) {
        tensors.push_back(drawn_weights("model.layers." + std::to_string(layer) + hf + ".weight", 600, random));
        const std::string now = "layers." + std::to_string(layer) + other + ".weight";
        whole.push_back(renamed(trained(tensors.back(), random), now));
        expected[now] = std::to_string(shard) + ":" + tensors.back().name;
      }
    }
    // In the order of their names, as savers write them.
    std::ranges::sort(tensors, {}, &TestTensor::name);
    shards.push_back(shard_of(tensors, std::to_string(shard)));
  }
  std::ranges::sort(whole, {}, &TestTensor::name);
  CHECK(sources_of(shards, shard_of(whole, "whole")) == expected);
}

TEST_CASE("a tensor of another shape keeps its source, one of another size or dtype starts afresh") {
  std::mt19937_64 random(seed());
  TestTensor reshaped = drawn_weights("reshaped", 3000, random);
  const PlacedFile base =
      shard_of({reshaped, drawn_weights("resized", 3000, random), drawn_weights("retyped", 2000, random)});
  reshaped.shape = {30, 10, 10};
  TestTensor retyped = drawn_weights("retyped", 2000, random);
  retyped.dtype = "F16";
  const PlacedFile next = shard_of({reshaped, drawn_weights("resized", 3001, random), retyped});
  CHECK(sources_of({base}, next) ==
        std::map<std::string, std::string>{{"reshaped", "m:reshaped"}, {"resized", "afresh"}, {"retyped", "afresh"}});
  delta_bytes({base}, next);
  // Renamed as well, and into another file.
  const PlacedFile moved = shard_of({renamed(reshaped, "new")});
  CHECK(sources_of({shard_of({}, "0"), base}, moved).at("new") == "m:reshaped");
}

TEST_CASE("tied tensors that are untied share a source, and tying them again needs none") {
  std::mt19937_64 random(seed());
  const TestTensor embedding = drawn_weights("embed_tokens.weight", 5000, random);
  const TestTensor head = renamed(embedding, "lm_head.weight");
  const TestTensor other = drawn_weights("norm.weight", 5000, random);
  const PlacedFile tied = shard_of({embedding, other});
  const PlacedFile untied = shard_of({embedding, head, other});
  CHECK(sources_of({tied}, untied).at("lm_head.weight") == "m:embed_tokens.weight");
  CHECK(delta_bytes({tied}, untied) < 2000);
  CHECK(sources_of({untied}, tied) ==
        std::map<std::string, std::string>{{"embed_tokens.weight", "m:embed_tokens.weight"},
                                           {"norm.weight", "m:norm.weight"}});
  CHECK(delta_bytes({untied}, tied) < 2000);
  // Only the head is left.
  CHECK(sources_of({tied}, shard_of({head, other})).at("lm_head.weight") == "m:embed_tokens.weight");
}

TEST_CASE("many equal tensors under new names come from any of them, at no cost") {
  std::vector<TestTensor> before;
  std::vector<TestTensor> after;
  for (int i = 0; i < 150; ++i) {
    before.push_back(constant("layers." + std::to_string(i) + ".norm", 2000));
    after.push_back(renamed(before.back(), "h" + std::to_string(i)));
  }
  for (const auto& [name, source] : sources_of({shard_of(before)}, shard_of(after))) CHECK(source != "afresh");
  CHECK(delta_bytes({shard_of(before)}, shard_of(after)) < 12'000);
}

TEST_CASE("tensors that are new, or too small to be worth a search, start afresh") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const TestTensor small = drawn_weights("small", 511, random);
  const TestTensor searched = drawn_weights("searched", 512, random);
  const PlacedFile base = shard_of({small, searched, drawn_weights("other", 4000, random), {"empty", "BF16", {0}, {}}});
  const PlacedFile next = shard_of({renamed(small, "s"),
                                    renamed(searched, "l"),
                                    drawn_weights("new", 4000, random),
                                    {"also empty", "BF16", {0}, {}}});
  CHECK(sources_of({base}, next) ==
        std::map<std::string, std::string>{
            {"s", "afresh"}, {"l", "m:searched"}, {"new", "afresh"}, {"also empty", "afresh"}});
  CHECK(delta_bytes({base}, next) < next.bytes.size() + 2000);
  CHECK(sources_of(std::vector<PlacedFile>(), next).at("l") == "afresh");
}

TEST_CASE("a file that is compared behind others has the sources that it has alone, in the order of the base") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (int round = 0; round < 30; ++round) {
    // Many alike, so that more than are looked at could be meant; and the same names in several folders.
    const std::vector<std::string> folders =
        round % 3 == 0 ? std::vector<std::string>{""} : std::vector<std::string>{"a/", "b/", "b/c/", ""};
    const std::size_t shards = 2 + random() % 7;
    std::map<std::string, std::vector<TestTensor>> base_tensors;
    std::map<std::string, std::vector<TestTensor>> next_tensors;
    const auto place_among = [&](std::map<std::string, std::vector<TestTensor>>& files, std::size_t shard) {
      return &files[folders[random() % folders.size()] + std::to_string(shard) + ".safetensors"];
    };
    const TestTensor alike = drawn_weights("", 600, random);
    std::set<std::string> in_base;
    std::set<std::string> in_next;
    for (int i = 0; i < 120; ++i) {
      TestTensor tensor = random() % 3 == 0 ? alike : drawn_weights("", random() % 4 == 0 ? 700 : 600, random);
      tensor.name = "layer." + std::to_string(i / 10) + ".expert." + std::to_string(i % 10);
      for (std::size_t copies = 1 + random() % 2; copies > 0; --copies) {
        auto* const file = place_among(base_tensors, random() % shards);
        if (in_base.insert(std::to_string(reinterpret_cast<std::uintptr_t>(file)) + tensor.name).second)
          file->push_back(tensor);
      }
      if (random() % 3 != 0) tensor.name = (random() % 2 == 0 ? "x." : "model.") + tensor.name;
      if (random() % 8 != 0) place_among(next_tensors, random() % shards)->push_back(trained(tensor, random));
    }
    std::vector<CheckpointFile> files;
    for (const auto& [path, tensors] : base_tensors) {
      const auto reader = reader_of({path, safetensors_file(tensors)});
      files.push_back({path, reader->size_bytes(), false, [reader] { return reader; }, std::nullopt, std::nullopt});
    }
    const BaseFiles base(Checkpoint("base", files));
    for (const auto& file_of_next : next_tensors) {
      const std::string& path = file_of_next.first;
      const PlacedFile next{path, safetensors_file(file_of_next.second)};
      const OrderedBase ordered = base.for_place(path, SafetensorsHeader::read(*reader_of(next)));
      std::vector<std::size_t> numbers(ordered.index().files().size());
      std::iota(numbers.begin(), numbers.end(), std::size_t{0});
      std::ranges::sort(numbers, [&](std::size_t a, std::size_t b) { return ordered.comes_before(a, b); });
      std::vector<BaseFile> alone;
      for (const std::size_t number : numbers) alone.push_back(ordered.index().files()[number]);
      REQUIRE(alone.front().path == ordered.front().path);
      const auto is_beside = [&](const BaseFile& file) {
        return std::filesystem::path(file.path).parent_path() == std::filesystem::path(path).parent_path();
      };
      REQUIRE(std::is_partitioned(alone.begin() + 1, alone.end(), is_beside));
      CAPTURE(path);
      REQUIRE(sources_of(ordered, next) == sources_of(alone, next));
    }
  }
}

TEST_CASE("the file at the same place is asked first, then the others, and those not needed are not named") {
  std::mt19937_64 random(seed());
  const TestTensor a = drawn_weights("a", 1000, random);
  const TestTensor b = drawn_weights("b", 1000, random);
  const TestTensor c = drawn_weights("c", 1000, random);
  const std::vector<PlacedFile> base = {shard_of({a, c}, "1"), shard_of({a, drawn_weights("unused", 900, random)}, "2"),
                                        shard_of({b}, "3")};
  const PlacedFile next = shard_of({a, b, renamed(c, "x.c"), renamed(b, "x.b")}, "1");
  CHECK(sources_of(base, next) ==
        std::map<std::string, std::string>{{"a", "1:a"}, {"b", "3:b"}, {"x.c", "1:c"}, {"x.b", "3:b"}});
  const auto files = base_of(base);
  const auto reader = reader_of(next);
  const TensorSources sources =
      find_sources(files, SafetensorsHeader::read(*reader), *reader, testing::SilentExecution());
  CHECK(sources.files == std::vector{&sources.base.index().files()[0], &sources.base.index().files()[2]});
}

TEST_CASE("a delta that takes nothing from the base names none, and one that takes anything names it") {
  std::mt19937_64 random(seed());
  const PlacedFile base = shard_of({drawn_weights("a", 3000, random), {"empty", "BF16", {0}, {}}});
  const auto named = [&](const PlacedFile& next) {
    const Bytes delta = make_delta({base}, next).bytes;
    REQUIRE((apply_delta(delta, {base}) == next.bytes));
    return !open_delta(delta)->description().base.empty();
  };
  CHECK_FALSE(named(shard_of({drawn_weights("b", 2000, random)})));
  CHECK_FALSE(named(shard_of({})));
  CHECK(named(base));
  CHECK(named(shard_of({{"empty", "BF16", {0}, {}}})));
  // The header is the base's, and no tensor is.
  const PlacedFile other = shard_of({drawn_weights("a", 3000, random), {"empty", "BF16", {0}, {}}});
  CHECK(named(other));
}

TEST_CASE("sources are found in files that exist only as deltas as in those files themselves") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(drawn_weights("layer." + std::to_string(i), 2000, random));
  const PlacedFile first = shard_of(tensors);
  for (TestTensor& tensor : tensors) tensor = renamed(trained(std::move(tensor), random), "model." + tensor.name);
  const PlacedFile second = shard_of(tensors);
  const auto version = version_of(make_delta({first}, second).bytes, {first});
  for (TestTensor& tensor : tensors) tensor = renamed(trained(std::move(tensor), random), "x." + tensor.name);
  const PlacedFile third = shard_of(tensors);
  const auto found = sources_of(std::vector<BaseFile>{{"m", version.rebuilt}}, third);
  CHECK(found == sources_of({second}, third));
  for (const auto& [name, source] : found) CHECK("m:" + name.substr(2) == source);
}

}  // namespace wdelta
