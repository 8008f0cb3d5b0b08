// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_layout.hpp"

#include "checkpoint/safetensors.hpp"
#include "testing/fault.hpp"
#include "testing/safetensors_file.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

namespace wdelta {

using namespace testing;

namespace {

TensorShape tensor(std::string name, const char* dtype, std::vector<std::uint64_t> shape) {
  return {std::move(name), dtype_named(dtype), std::move(shape)};
}

std::string header_of(const FileLayout& file) { return {file.front.begin() + 8, file.front.end()}; }

}  // namespace

TEST_CASE("the header of tensors laid out is byte for byte the one that safetensors' own writer makes") {
  const std::vector<TensorShape> tensors = {tensor("b", "BF16", {2, 3}), tensor("c", "U8", {1}),
                                            tensor("a\"\n\u00e9", "BF16", {}), tensor("z", "F32", {0, 4})};
  const TensorLayout layout = lay_out(tensors, {"x/model.safetensors", 1000, {{"format", "pt"}}});
  REQUIRE(layout.files.size() == 1);
  CHECK_FALSE(layout.index.has_value());
  const FileLayout& file = layout.files.front();
  CHECK(header_of(file) ==
        "{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
        "\"a\\\"\\n\u00e9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[2,14]},"
        "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[14,15]}}       ");
  CHECK(file.front.size() % 8 == 0);
  CHECK(file.front[0] == static_cast<std::uint8_t>(file.front.size() - 8));
  CHECK(file.size_bytes == file.front.size() + 15);
}

TEST_CASE("what is laid out is read back as it was, for all dtypes, each at a multiple of its width, in any order") {
  std::vector<TensorShape> tensors;
  for (const DtypeBits& dtype : k_all_dtypes) {
    for (const std::uint64_t extent : {4u, 12u})
      tensors.push_back(
          tensor(std::string(dtype.name) + std::to_string(extent), std::string(dtype.name).c_str(), {extent}));
  }
  const FileLayout first = lay_out(tensors, {}).files.front();
  const SafetensorsHeader header = SafetensorsHeader::parse(first.front, first.size_bytes, "laid out");
  CHECK(header.metadata().empty());
  REQUIRE(header.tensors().size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& read = header.tensors()[i];
    const TensorShape& written = tensors[first.parts[i].tensor];
    CHECK(read.name == written.name);
    CHECK(read.dtype == written.dtype);
    CHECK((read.shape == written.shape));
    CHECK(read.begin == first.parts[i].begin);
    CHECK(read.begin % read.dtype->width_bytes == 0);
  }
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 5; ++turn) {
    std::ranges::shuffle(tensors, random);
    CHECK((lay_out(tensors, {}).files.front().front == first.front));
  }
}

TEST_CASE("tensors of more bytes than a shard may have go to several files, by name, with an index") {
  const std::vector<TensorShape> tensors = {tensor("d", "U8", {3}), tensor("a", "U8", {6}), tensor("c", "U8", {30}),
                                            tensor("b", "U8", {4})};
  const TensorLayout layout = lay_out(tensors, {"m/w.safetensors", 10, {}});
  REQUIRE(layout.files.size() == 3);
  CHECK(layout.files[0].path == "m/w-00001-of-00003.safetensors");
  CHECK(layout.files[0].parts.size() == 2);
  CHECK(layout.files[1].parts.size() == 1);
  REQUIRE(layout.index.has_value());
  CHECK(layout.index->path == "m/w.safetensors.index.json");
  CHECK(layout.index->text ==
        "{\n  \"metadata\": {\n    \"total_size\": 43\n  },\n  \"weight_map\": {\n"
        "    \"a\": \"w-00001-of-00003.safetensors\",\n    \"b\": \"w-00001-of-00003.safetensors\",\n"
        "    \"c\": \"w-00002-of-00003.safetensors\",\n    \"d\": \"w-00003-of-00003.safetensors\"\n  }\n}\n");
}

TEST_CASE("names and shapes that no file can have are refused") {
  const auto lay = [](std::vector<TensorShape> tensors, const std::string& path = "m.safetensors") {
    return fault_of([&] { lay_out(tensors, {path, 10, {}}); });
  };
  CHECK(lay({tensor("", "U8", {1})}) == Fault::usage);
  CHECK(lay({tensor("__metadata__", "U8", {1})}) == Fault::usage);
  CHECK(lay({tensor("\xff", "U8", {1})}) == Fault::usage);
  CHECK(lay({tensor("a", "U8", {1}), tensor("a", "BF16", {2})}) == Fault::usage);
  CHECK(lay({tensor("a", "F4", {1})}) == Fault::usage);
  CHECK(lay({tensor("a", "U8", {std::uint64_t{1} << 60, 16})}) == Fault::usage);
  CHECK(lay({tensor("a", "U8", {1})}, "model.bin") == Fault::usage);
  CHECK(lay({tensor("a", "U8", {1})}, "../m.safetensors") == Fault::usage);
}

TEST_CASE("a shape that has a 0 is laid out where a reader takes it, and refused where it does not") {
  constexpr std::uint64_t k_many = std::uint64_t{1} << 60;
  struct Row {
    std::vector<std::uint64_t> shape;
    bool taken;
  };
  // The reference implementation multiplies elements in order; their bits are counted last.
  for (const Row& row : std::vector<Row>{{{k_many, 16, 0}, false},
                                         {{16, k_many, 0, 1}, false},
                                         {{k_many, 0, 16}, true},
                                         {{0, k_many, 16}, true},
                                         {{16 * (k_many - 1), 0}, true},
                                         {{0}, true}}) {
    const std::vector<TensorShape> tensors = {tensor("a", "I64", row.shape)};
    CAPTURE(row.shape.front());
    CHECK(fault_of([&] { lay_out(tensors, {}); }) == (row.taken ? std::nullopt : std::optional(Fault::usage)));
    std::string shape;
    for (const std::uint64_t extent : row.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    const auto file = testing::raw_safetensors(
        R"({"a":{"dtype":"I64","shape":[)" + shape + R"(],"data_offsets":[0,0]}})", std::vector<std::uint8_t>());
    CHECK(fault_of([&] { SafetensorsHeader::read(MemoryReader(file, "thing")); }) ==
          (row.taken ? std::nullopt : std::optional(Fault::corrupt)));
  }
}

}  // namespace wdelta
