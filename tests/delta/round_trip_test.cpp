// SPDX-License-Identifier: Apache-2.0
#include "delta/deltas.hpp"
#include "testing/counting_reader.hpp"
#include "testing/fault.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr std::uint64_t k_edges[] = {0, 2, 100, 65'534, 65'536, 65'538, 131'072, 140'000};
constexpr double k_densities[] = {0, 0.0001, 0.03, 0.4, 1};

/// A tensor of every dtype, each of a length at an edge of a block.
std::vector<TestTensor> tensors_of_all_dtypes(std::mt19937_64& random) {
  std::vector<TestTensor> tensors;
  for (const DtypeBits dtype : k_all_dtypes) {
    // Six bits: four elements are the fewest that fill bytes.
    const std::uint64_t count = k_edges[random() % std::size(k_edges)] / 4 * 4 + (dtype.bits >= 8 ? random() % 3 : 0);
    tensors.push_back(random_tensor("t." + std::string(dtype.name), dtype, count, random));
  }
  return tensors;
}

/// The law: applying gives next, and the delta does not depend on how it was made.
void require_round_trip(const std::vector<PlacedFile>& base, const PlacedFile& next) {
  const Bytes delta = make_delta(base, next).bytes;
  for (const Run& run : all_runs()) {
    CAPTURE(std::string(run.engine->name));
    CAPTURE(run.threads);
    REQUIRE((make_delta(base, next, run).bytes == delta));
    REQUIRE((apply_delta(delta, base, run) == next.bytes));
  }
}

}  // namespace

TEST_CASE("applying the delta of two files to the first gives the second: every dtype and density, in place") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const double density : k_densities) {
    CAPTURE(density);
    const auto tensors = tensors_of_all_dtypes(random);
    const PlacedFile base{"model.safetensors", safetensors_file(tensors)};
    const PlacedFile next{"model.safetensors", safetensors_file(with_changes(tensors, density, random))};
    const MadeDelta made = make_delta({base}, next);
    CHECK_FALSE(made.change.front_changed);
    CHECK(version_of(made.bytes, {base}).rebuilt->in_place_origin() != nullptr);
    require_round_trip({base}, next);
  }
}

TEST_CASE("the same where the header, and with it every offset, changed") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = tensors_of_all_dtypes(random);
  const PlacedFile base{"model.safetensors", safetensors_file(tensors)};
  for (const std::size_t padding : {std::size_t{0}, std::size_t{1}, std::size_t{5}}) {
    auto changed = with_changes(tensors, 0.01, random);
    std::shuffle(changed.begin(), changed.end(), random);
    const PlacedFile next{"model.safetensors", safetensors_file(changed, R"({"step":"2"})", padding)};
    CHECK(make_delta({base}, next).change.front_changed);
    require_round_trip({base}, next);
  }
}

TEST_CASE("the same where only the header changed, at the same length and at another") {
  std::mt19937_64 random(seed());
  const auto tensors = tensors_of_all_dtypes(random);
  const PlacedFile base{"a.safetensors", safetensors_file(tensors, R"({"step":"1"})")};
  for (const char* metadata : {R"({"step":"2"})", R"({"step":"22"})", ""}) {
    const PlacedFile next{"a.safetensors", safetensors_file(tensors, metadata)};
    const MadeDelta made = make_delta({base}, next);
    CHECK(made.change.front_changed);
    CHECK(made.change.description.change_count == 0);
    CHECK(made.bytes.size() < 8000);
    require_round_trip({base}, next);
  }
}

TEST_CASE("the same where blocks and tensors lie across the edges of segments") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  constexpr std::uint64_t k_segment_elements = Blake3Tree::k_segment_bytes / 2;
  for (const std::int64_t off : {-200, -1, 0, 3}) {
    CAPTURE(off);
    std::vector<TestTensor> tensors;
    const DtypeBits bf16 = k_all_dtypes[0];
    tensors.push_back(random_tensor("first", bf16, k_segment_elements + static_cast<std::uint64_t>(off), random));
    tensors.push_back(random_tensor("second", {"I8", 8}, 100'001, random));
    tensors.push_back(weights(std::string(k_used_in_part), k_segment_elements / 2, random));
    tensors.push_back(random_tensor("third", {"F64", 64}, 530'000, random));
    const PlacedFile base{"model.safetensors", safetensors_file(tensors)};
    const PlacedFile next{"model.safetensors", safetensors_file(with_changes(tensors, 0.005, random))};
    require_round_trip({base}, next);
  }
}

TEST_CASE("the same where all tensors lie further on or back, over the edges of segments, and some come and go") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const DtypeBits bf16 = k_all_dtypes[0];
  std::vector<TestTensor> tensors;
  tensors.push_back(random_tensor("first", bf16, Blake3Tree::k_segment_bytes / 2 - 500, random));
  tensors.push_back(random_tensor("second", {"F64", 64}, 100'000, random));
  const auto file = [&](const std::vector<TestTensor>& content, std::size_t padding) {
    return PlacedFile{"model.safetensors", safetensors_file(content, "", padding)};
  };
  auto more = with_changes(tensors, 0.005, random);
  more.push_back(random_tensor("third", bf16, 500'000, random));
  auto between = with_changes(tensors, 0.005, random);
  between.insert(between.begin() + 1, random_tensor("between", bf16, 40'000, random));
  const auto require = [](const PlacedFile& base, const PlacedFile& next) {
    const Bytes delta = make_delta({base}, next, {&best_engine(), 1}).bytes;
    CHECK((make_delta({base}, next, {&best_engine(), 5}).bytes == delta));
    CHECK((apply_delta(delta, {base}, {&best_engine(), 2}) == next.bytes));
  };
  const PlacedFile plain = file(tensors, 0);
  for (const std::size_t padding : {std::size_t{1}, std::size_t{65'000}, std::size_t{70'000}}) {
    CAPTURE(padding);
    const PlacedFile moved = file(with_changes(tensors, 0.005, random), padding);
    require(plain, moved);
    require(moved, plain);
    // A block compared with the wrong bytes would be stored whole, and come back right all the same.
    CHECK(make_delta({plain}, moved).bytes.size() < plain.bytes.size() / 50);
    CHECK(make_delta({moved}, plain).bytes.size() < plain.bytes.size() / 50);
    require(plain, file(more, padding));
    require(file(more, padding), plain);
    require(plain, file(between, padding));
    require(file(between, padding), plain);
  }
}

TEST_CASE("a diff reads both files once, also where the header grew or shrank") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> tensors;
  for (const char* name : {"first", "second", "third"}) {
    tensors.push_back(random_tensor(name, k_all_dtypes[0], 3'000'000, random));
  }
  const Bytes plain = safetensors_file(tensors);
  constexpr SegmentRuns k_one_run{8, 1};
  for (const std::size_t padding : {std::size_t{0}, std::size_t{8}, std::size_t{1000}}) {
    const Bytes moved = safetensors_file(with_changes(tensors, 0.01, random), "", padding);
    for (const auto& [base_bytes, next_bytes, runs] : {std::tuple(&plain, &moved, k_runs),
                                                       {&moved, &plain, k_runs},
                                                       {&plain, &moved, k_one_run},
                                                       {&moved, &plain, k_one_run}}) {
      const auto base = std::make_shared<CountingReader>(*base_bytes);
      const auto next = std::make_shared<CountingReader>(*next_bytes);
      const std::vector<BaseFile> files = {{"model.safetensors", RebuiltFile::from_file(base)}};
      const SilentExecution execution(2);
      diff_file(files, "model.safetensors", next, std::nullopt, {.runs = runs}, best_engine(), execution);
      for (const auto& reader : {base, next}) {
        CAPTURE(padding);
        CAPTURE(runs.longest);
        CHECK(reader->read_bytes() >= reader->size_bytes());
        // Headers, and what these differ in; and the block of 128 KiB at the end of each run but the last.
        const std::uint64_t most_blocks = (reader->size_bytes() / Blake3Tree::k_segment_bytes + 1) / runs.longest;
        CHECK(reader->read_bytes() < reader->size_bytes() + 8192 + most_blocks * (std::size_t{128} << 10));
      }
    }
  }
}

TEST_CASE("the same for files that are equal, have no tensors, or have nothing in common") {
  std::mt19937_64 random(seed());
  const auto one = [&](const char* name, std::uint64_t count) {
    return PlacedFile{"m.safetensors", safetensors_file({random_tensor(name, {"BF16", 16}, count, random)})};
  };
  const PlacedFile none{"m.safetensors", safetensors_file({})};
  const PlacedFile padded{"m.safetensors", safetensors_file({}, {}, 9)};
  const PlacedFile a = one("a", 70'000);
  const PlacedFile empty = one("a", 0);
  for (const auto& [base, next] : {std::pair(a, a),
                                   {none, none},
                                   {none, padded},
                                   {padded, none},
                                   {none, a},
                                   {a, none},
                                   {a, one("b", 70'000)},
                                   {empty, a},
                                   {a, empty},
                                   {empty, one("b", 0)}}) {
    require_round_trip({base}, next);
  }
  for (const PlacedFile& next : {none, padded, a, empty}) require_round_trip({}, next);
}

TEST_CASE("the same where tensors are new, retyped, reshaped, or lie in another file of the base") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const DtypeBits bf16{"BF16", 16};
  const TestTensor kept = random_tensor("kept", bf16, 70'000, random);
  const TestTensor moved = random_tensor("moved", {"F32", 32}, 66'000, random);
  TestTensor retyped = random_tensor("retyped", bf16, 300, random);
  TestTensor reshaped = random_tensor("reshaped", bf16, 66'000, random);
  TestTensor zero = random_tensor("zero", bf16, 70'000, random);
  std::ranges::fill(zero.bytes, std::uint8_t{0});
  const PlacedFile first{"1.safetensors", safetensors_file({kept, retyped, reshaped})};
  const PlacedFile unused{"2.safetensors", safetensors_file({random_tensor("other", bf16, 10, random)})};
  const PlacedFile second{"3.safetensors", safetensors_file({moved})};
  retyped.dtype = "F16";
  reshaped.shape = {2, 33'000};
  auto tensors = with_changes({kept, moved, retyped, reshaped}, 0.01, random);
  tensors.push_back(zero);
  tensors.push_back(random_tensor("new", bf16, 1000, random));
  tensors.push_back({"new and empty", "BF16", {0}, {}});
  const PlacedFile next{"renamed.safetensors", safetensors_file(tensors)};

  const MadeDelta made = make_delta({first, unused, second}, next);
  const DeltaDescription& description = made.change.description;
  REQUIRE(description.base.size() == 2);  // the unused one is not named
  CHECK(description.base[0].path == first.path);
  CHECK(description.base[1].path == second.path);
  CHECK(description.result.path == next.path);
  CHECK(description.source_of("kept")->file == 0);
  CHECK(description.source_of("moved")->file == 1);
  CHECK(description.source_of("reshaped")->file == 0);
  for (const char* name : {"retyped", "zero", "new", "new and empty"}) {
    CHECK_FALSE(description.source_of(name).has_value());
  }
  const auto delta = open_delta(made.bytes);
  REQUIRE(delta->find("zero") != nullptr);
  CHECK(delta->find("zero")->size_bytes() == 0);
  require_round_trip({first, unused, second}, next);
}

TEST_CASE("a tensor may bear any name, the names that the delta itself uses too") {
  std::mt19937_64 random(seed());
  std::vector<TestTensor> tensors;
  for (const char* name : {"wdelta.index", "wdelta.header", "wdelta.index'", "wdelta.bundle.0", "digest", "payload", "",
                           "größe", "with \\\"quotes\\\"", "a\\u0000b", "\\\"digest\\\":\\\"0\\\""}) {
    tensors.push_back(random_tensor(name, {"BF16", 16}, 50, random));
  }
  const PlacedFile base{"m.safetensors", safetensors_file(tensors)};
  require_round_trip({base}, {"m.safetensors", safetensors_file(with_changes(tensors, 0.5, random))});
  require_round_trip({base}, {"m.safetensors", safetensors_file(with_changes(tensors, 0.5, random), "{}")});
  require_round_trip({}, base);
}

TEST_CASE("every way to code blocks rebuilds the same file") {
  std::mt19937_64 random(seed());
  const auto tensors = tensors_of_all_dtypes(random);
  const PlacedFile base{"m.safetensors", safetensors_file(tensors)};
  const PlacedFile next{"m.safetensors", safetensors_file(with_changes(tensors, 0.02, random))};
  for (const BlockChoice choice : {BlockChoice::sparse, BlockChoice::dense, BlockChoice::whole, BlockChoice::afresh}) {
    const Bytes delta = make_delta({base}, next, {&best_engine(), 2, choice}).bytes;
    CHECK((apply_delta(delta, {base}) == next.bytes));
  }
}

TEST_CASE("a description counts elements and changes, and names the digests of what was read") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = tensors_of_all_dtypes(random);
  const auto changed = with_changes(tensors, 0.01, random);
  const PlacedFile base{"m.safetensors", safetensors_file(tensors)};
  const PlacedFile next{"m.safetensors", safetensors_file(changed, "{}")};
  std::uint64_t elements = 0;
  std::uint64_t changes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t width = dtype_named(tensors[i].dtype)->width_bytes;
    for (std::size_t at = 0; at < tensors[i].bytes.size(); at += width) {
      const auto begin = tensors[i].bytes.begin() + static_cast<std::ptrdiff_t>(at);
      changes += std::equal(begin, begin + static_cast<std::ptrdiff_t>(width),
                            changed[i].bytes.begin() + static_cast<std::ptrdiff_t>(at))
                     ? 0
                     : 1;
      ++elements;
    }
  }
  const auto delta = open_delta(make_delta({base}, next).bytes);
  CHECK(delta->description().element_count == elements);
  CHECK(delta->description().change_count == changes);
  CHECK(delta->description().base.front().digest == blake3(base.bytes));
  CHECK(delta->description().result.digest == blake3(next.bytes));
  CHECK(delta->description().result.size_bytes == next.bytes.size());
}

}  // namespace wdelta
