// SPDX-License-Identifier: Apache-2.0
// Deltas of files that are no safetensors files.
#include "base/json.hpp"
#include "delta/deltas.hpp"
#include "delta/opaque_coding.hpp"
#include "testing/counting_reader.hpp"
#include "testing/fault.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr BlockChoice k_choices[] = {BlockChoice::unknown_bytes, BlockChoice::automatic, BlockChoice::sparse,
                                     BlockChoice::dense,         BlockChoice::whole,     BlockChoice::afresh};

PlacedFile file_of(Bytes bytes) { return {"state.bin", std::move(bytes)}; }

Bytes cut_or_continued(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

/// Random bytes of that size, or some of `from` where there are as many: base and result mostly agree.
Bytes some_of(const Bytes& from, std::size_t size, std::mt19937_64& random) {
  Bytes bytes(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(std::min(size, from.size())));
  const Bytes rest = random_bytes(random, size - bytes.size());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return with_changes(std::move(bytes), 1, 0.01, random);
}

/// The law: applying gives next, and the delta does not depend on how it was made.
void require_round_trip(const std::vector<PlacedFile>& base, const PlacedFile& next, std::string_view dtype,
                        BlockChoice choice) {
  CAPTURE(std::string(dtype));
  CAPTURE(next.bytes.size());
  CAPTURE(base.empty() ? std::string("no base") : std::to_string(base.front().bytes.size()));
  CAPTURE(static_cast<int>(choice));
  const Bytes delta = make_opaque_delta(base, next, dtype, {&engines().back(), 1, choice}).bytes;
  for (Run run : all_runs()) {
    CAPTURE(std::string(run.engine->name));
    CAPTURE(run.threads);
    run.choice = choice;
    REQUIRE((make_opaque_delta(base, next, dtype, run).bytes == delta));
    REQUIRE((apply_delta(delta, base, run) == next.bytes));
  }
}

}  // namespace

TEST_CASE("applying the delta of two opaque files to the first gives the second: every dtype and size") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const DtypeBits dtype : k_all_dtypes) {
    const std::size_t width = dtype_named(dtype.name)->width_bytes;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, width - 1, width, 7 * width + 1, 100 * width}) {
      const PlacedFile next = file_of(random_bytes(random, size));
      const BlockChoice choice = k_choices[random() % std::size(k_choices)];
      require_round_trip({}, next, dtype.name, choice);
      for (const std::size_t base : {std::size_t{0}, size / 2, size, size + 1, size + 3 * width}) {
        require_round_trip({file_of(some_of(next.bytes, base, random))}, next, dtype.name, choice);
      }
    }
  }
}

TEST_CASE("the same where blocks end, and where blocks lie across the edges of segments") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  constexpr std::size_t k_segment = Blake3Tree::k_segment_bytes;
  for (const char* dtype : {"U8", "BF16", "F32", "I64"}) {
    const std::size_t block = std::size_t{65'536} * dtype_named(dtype)->width_bytes;
    for (const std::size_t size : {block - 1, block, 2 * block + 1, k_segment + 3, 2 * k_segment - 1}) {
      const PlacedFile next = file_of(random_bytes(random, size));
      const std::size_t sizes[] = {size, size, size / 3, size + 2 * block};
      const std::size_t base = sizes[random() % std::size(sizes)];
      require_round_trip({file_of(some_of(next.bytes, base, random))}, next, dtype, BlockChoice::unknown_bytes);
    }
    require_round_trip({}, file_of(Bytes(k_segment + 9, 7)), dtype, BlockChoice::unknown_bytes);
  }
}

TEST_CASE("a description counts elements and changes of the whole file, and names the base as it is") {
  std::mt19937_64 random(seed());
  const Bytes bytes = random_bytes(random, 1003);
  Bytes changed = bytes;
  for (const std::size_t at : {0, 1, 4, 999, 1000, 1002}) changed[at] ^= 1;  // elements 0, 1, 249, and two of the tail
  for (const std::size_t base_size : {std::size_t{1003}, std::size_t{5000}}) {
    const PlacedFile base = file_of(cut_or_continued(bytes, base_size));
    const MadeDelta made = make_opaque_delta({base}, file_of(changed), "F32");
    const DeltaDescription description = open_delta(made.bytes)->description();
    CHECK(description.opaque == dtype_named("F32"));
    CHECK(description.element_count == 250 + 3);
    CHECK(description.change_count == 5);
    REQUIRE(description.base.size() == 1);
    CHECK(description.base.front() == FileIdentity{"state.bin", base_size, blake3(base.bytes)});
    CHECK(description.result == FileIdentity{"state.bin", 1003, blake3(changed)});
    const FileVersion version = version_of(made.bytes, {base});
    const bool in_place = version.rebuilt->in_place_origin() == version.origins.front().file.get();
    CHECK(in_place == (base_size == 1003));
  }
}

TEST_CASE("a base that ends early goes on with zero bytes, one that is longer is cut off") {
  std::mt19937_64 random(seed());
  const Bytes bytes = random_bytes(random, 1000);
  const auto changes = [](const Bytes& base, const Bytes& next) {
    return make_opaque_delta({file_of(base)}, file_of(next), "BF16").change.description.change_count;
  };
  CHECK(changes(bytes, cut_or_continued(bytes, 200'001)) == 0);
  CHECK(changes(cut_or_continued(bytes, 200'001), bytes) == 0);
  CHECK(changes({}, Bytes(1001)) == 0);
  CHECK(changes({}, Bytes(1001, 1)) == 501);
}

TEST_CASE("a chain of opaque deltas gives what applying them in turn gives, whatever each takes the bytes for") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  struct Step {
    const char* dtype;
    std::size_t size;
  };
  const Step steps[] = {{"F32", 300'001}, {"F32", 300'001}, {"BF16", 300'001}, {"BF16", 300'003}, {"BF16", 299'000},
                        {"I64", 299'000}, {"U8", 0},        {"U8", 70'000},    {"F32", 70'000}};
  std::vector<PlacedFile> files = {file_of(random_bytes(random, 300'001))};
  std::vector<Bytes> deltas;
  for (const Step& step : steps) {
    files.push_back(file_of(some_of(files.back().bytes, step.size, random)));
    deltas.push_back(make_opaque_delta({files[files.size() - 2]}, files.back(), step.dtype).bytes);
  }
  for (std::size_t from = 0; from < deltas.size(); ++from) {
    FileVersion version = whole_version({"state.bin", files[from].bytes.size(), blake3(files[from].bytes)},
                                        reader_of(files[from]), Fault::base_mismatch);
    for (std::size_t to = from; to < deltas.size(); ++to) {
      CAPTURE(from);
      CAPTURE(to);
      version = delta_version(open_delta(deltas[to]), {version}, best_engine());
      const Bytes& whole = files[to + 1].bytes;
      REQUIRE((written(version, 2) == whole));
      for (int i = 0; i < 10 && !whole.empty(); ++i) {
        const std::uint64_t offset = random() % whole.size();
        Bytes part(std::min<std::uint64_t>(random() % 40'000, whole.size() - offset));
        version.bytes().read_at(offset, part);
        REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset)));
      }
    }
  }
}

TEST_CASE("an opaque delta that is cut at any length, or has any byte flipped, is refused") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto checking = [](const Bytes& delta) {
    return fault_of([&] { open_delta(delta)->check_payload(SilentExecution()); });
  };
  const PlacedFile base = file_of(random_bytes(random, 150));
  const PlacedFile next = file_of(with_changes(cut_or_continued(base.bytes, 155), 1, 0.2, random));
  for (const bool with_base : {true, false}) {
    const Bytes delta =
        make_opaque_delta(with_base ? std::vector{base} : std::vector<PlacedFile>(), next, "BF16").bytes;
    REQUIRE(checking(delta) == std::nullopt);
    const std::size_t payload = SafetensorsHeader::read(MemoryReader(delta, "delta")).front().size();
    for (std::size_t length = 0; length < delta.size(); ++length) {
      if (checking(cut_or_continued(delta, length)) != Fault::corrupt) FAIL("cut at ", length);
    }
    for (std::size_t at = 0; at < delta.size(); ++at) {
      for (const unsigned flip : {1u, 2u, 16u, 32u, 128u, 255u}) {
        Bytes changed = delta;
        changed[at] ^= static_cast<std::uint8_t>(flip);
        const auto fault = checking(changed);
        // As in a delta of tensors: an encoding's number may turn into that of one to come.
        const bool other_encoding = fault == Fault::unsupported && at >= payload;
        if (fault != Fault::corrupt && !other_encoding) FAIL("byte ", at, " flipped by ", flip);
      }
    }
  }
}

TEST_CASE("a base with any bit flipped is a base mismatch, in the part that is cut off too") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const std::size_t base_size : {40, 60, 90}) {
    const PlacedFile base = file_of(random_bytes(random, base_size));
    const PlacedFile next = file_of(with_changes(cut_or_continued(base.bytes, 60), 1, 0.2, random));
    const Bytes delta = make_opaque_delta({base}, next, "F32").bytes;
    const auto applying = [&](const PlacedFile& wrong) {
      return fault_of([&] { write_version(version_of(delta, {wrong}), nullptr, SilentExecution()); });
    };
    REQUIRE(applying(base) == std::nullopt);
    for (std::size_t at = 0; at < base_size; ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        PlacedFile wrong = base;
        wrong.bytes[at] ^= static_cast<std::uint8_t>(1u << bit);
        if (applying(wrong) != Fault::base_mismatch) FAIL("byte ", at, ", bit ", bit);
      }
    }
    for (const std::size_t size : {std::size_t{0}, base_size - 1, base_size + 1}) {
      CHECK(applying(file_of(cut_or_continued(base.bytes, size))) == Fault::base_mismatch);
    }
  }
}

TEST_CASE("a sealed opaque delta that breaks a rule is refused as corrupt") {
  std::mt19937_64 random(seed());
  const PlacedFile base = file_of(random_bytes(random, 300));
  const PlacedFile next = file_of(with_changes(cut_or_continued(base.bytes, 301), 2, 0.2, random));
  const Bytes delta = make_opaque_delta({base}, next, "BF16").bytes;
  const auto with = [&](const std::function<void(Json&)>& edit) {
    const Bytes forgery = forged(delta, edit);
    return fault_of([&] { write_version(version_of(forgery, {base}), nullptr, SilentExecution()); });
  };
  const auto with_key = [&](const char* key, const std::string& value) {
    return with([&](Json& header) { header["__metadata__"][key] = value; });
  };
  REQUIRE(with([](Json&) {}) == std::nullopt);
  for (const char* sources : {"{}", R"({"body":null})", R"({"tail":[0,"tail"]})"}) {
    CHECK(with_key("sources", sources) == Fault::corrupt);
  }
  for (const char* dtype : {"", "bf16", "BF17", "U8", "F32", "F64"}) {
    CAPTURE(dtype);
    CHECK(with_key("opaque", dtype) == Fault::corrupt);
  }
  CHECK(with_key("header", "body") == Fault::corrupt);
  CHECK(with_key("header", "none") == Fault::corrupt);
  CHECK(with([](Json& header) { header["__metadata__"].erase("opaque"); }) == Fault::corrupt);
  CHECK(with([](Json& header) {
          Json files = Json::parse(header["__metadata__"]["base"].get<std::string>());
          files.push_back(files[0]);
          files[1]["path"] = "other";
          header["__metadata__"]["base"] = files.dump();
        }) == Fault::corrupt);
  CHECK(with([](Json& header) { header["__metadata__"]["base"] = "[]"; }) == Fault::corrupt);
  for (const char* name : {"body", "tail"}) {
    CHECK(with([&](Json& header) {
            header["head"] = header[name];
            header.erase(name);
          }) == Fault::corrupt);
  }
  for (const std::uint64_t size : {0, 1, 299, 300, 302, 303, 200'000}) {
    CAPTURE(size);
    CHECK(with([&](Json& header) {
            Json result = Json::parse(header["__metadata__"]["result"].get<std::string>());
            result["size"] = size;
            header["__metadata__"]["result"] = result.dump();
          }) == Fault::corrupt);
  }
}

TEST_CASE("a delta that takes its header from the base is refused where the base is seen as bytes and has none") {
  std::mt19937_64 random(seed());
  const std::vector<TestTensor> tensors = {random_tensor("body", {"U8", 8}, 100, random)};
  const PlacedFile base{"model.safetensors", safetensors_file(tensors)};
  const PlacedFile next{base.path, safetensors_file(with_changes(tensors, 0.1, random))};
  const Run run;
  const auto delta = open_delta(make_delta({base}, next, run).bytes);
  const auto seen_as_bytes = RebuiltFile::from_bytes(reader_of(base), base.bytes.size(), *dtype_named("U8"));
  CHECK(fault_of([&] { RebuiltFile::from_delta(delta, {seen_as_bytes}, *run.engine); }) == Fault::corrupt);
}

TEST_CASE("the coding that a sample chooses is one that pays, and none for noise") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto choose = [](const PlacedFile* base, const PlacedFile& next) {
    const auto reader = base == nullptr ? nullptr : reader_of(*base);
    std::optional<std::string> agreed;
    std::optional<OpaqueCoding> coding;
    for (const Run& run : all_runs()) {
      coding = choose_opaque_coding(reader, *reader_of(next), *run.engine);
      const std::string told = coding ? std::string(coding->dtype->name) + (coding->with_base ? "+" : "") : "none";
      if (agreed) CHECK(told == *agreed);
      agreed = told;
    }
    return coding;
  };
  for (const std::size_t size : {0, 1, 7, 8, 100'000, 3'000'001}) {
    CAPTURE(size);
    const PlacedFile noise = file_of(random_bytes(random, size));
    const PlacedFile other = file_of(random_bytes(random, size));
    CHECK_FALSE(choose(nullptr, noise).has_value());
    CHECK_FALSE(choose(&other, noise).has_value());
    if (size < 100'000) continue;
    const auto zeros = choose(&noise, file_of(Bytes(size)));
    REQUIRE(zeros.has_value());
    CHECK_FALSE(zeros->with_base);
    for (const char* dtype : {"U8", "BF16", "F32"}) {
      CAPTURE(dtype);
      const std::size_t width = dtype_named(dtype)->width_bytes;
      Bytes moved = noise.bytes;
      // The carry tells the width: a step of one over the edge of a byte.
      for (std::size_t at = 0; at + width <= size; at += width) {
        for (std::size_t i = 0; i < width && ++moved[at + i] == 0; ++i) {
        }
      }
      const auto coding = choose(&noise, file_of(moved));
      REQUIRE(coding.has_value());
      CHECK(coding->with_base);
      const MadeDelta made = make_opaque_delta({noise}, file_of(moved), coding->dtype->name);
      CHECK(pays(made.bytes.size(), size));
    }
  }
}

TEST_CASE("deltas of tensors and of opaque files in turn: what each is made of is made about once") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> tensors = {weights("a", 300'000, random), weights("b", 200'001, random)};
  PlacedFile last{"m.safetensors", safetensors_file(tensors)};
  const auto counted = std::make_shared<CountingReader>(last.bytes);
  FileVersion version = whole_version({last.path, last.bytes.size(), blake3(last.bytes)}, counted, Fault::corrupt);
  constexpr int k_turns = 14;
  for (int turn = 0; turn < k_turns; ++turn) {
    tensors = with_changes(std::move(tensors), 0.002, random);
    const PlacedFile next{last.path, safetensors_file(tensors)};
    const Bytes delta = turn % 2 == 0 ? make_opaque_delta({last}, next, "BF16").bytes : make_delta({last}, next).bytes;
    version = delta_version(open_delta(delta), {version}, engines().back());
    last = next;
  }
  CHECK((written(version) == last.bytes));
  // Its digest is read too, and the header of each layer.
  CHECK(counted->read_bytes() < 4 * last.bytes.size());
}

}  // namespace wdelta
