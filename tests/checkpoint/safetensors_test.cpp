// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include "testing/fault.hpp"
#include "testing/safetensors_file.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>

namespace wdelta {

using testing::fault_of;
using testing::raw_safetensors;
using testing::safetensors_file;
using testing::TestTensor;
using Bytes = std::vector<std::uint8_t>;

namespace {

SafetensorsHeader read(Bytes file) { return SafetensorsHeader::read(MemoryReader(std::move(file), "thing")); }
std::optional<Fault> reading(const Bytes& file) {
  return fault_of([&] { read(file); });
}
/// A header about eight bytes of payload.
std::optional<Fault> reading(std::string_view header) { return reading(raw_safetensors(header, Bytes(8))); }

/// Whether the tensors fill the file behind the header, one behind the other.
bool tiles(const SafetensorsHeader& header, std::uint64_t file_size_bytes) {
  std::uint64_t at = header.front().size();
  for (const Tensor& tensor : header.tensors()) {
    if (tensor.begin != at || tensor.end < tensor.begin || header.find(tensor.name) == nullptr) return false;
    if (tensor.size_bytes() != tensor.element_count() * tensor.dtype->width_bytes) return false;
    at = tensor.end;
  }
  return at == file_size_bytes;
}

Bytes one_of_each_dtype(std::mt19937_64& random) {
  std::vector<TestTensor> tensors;
  for (const testing::DtypeBits dtype : testing::k_all_dtypes) {
    tensors.push_back(testing::random_tensor("t." + std::string(dtype.name), dtype, 4, random));
  }
  tensors.push_back({"scalar", "F32", {}, Bytes(4)});
  tensors.push_back({"empty", "F32", {0}, {}});
  tensors.push_back({"empty whatever the rest", "I64", {1ull << 40, 0, 1ull << 40}, {}});
  tensors.push_back({"größe", "BF16", {2, 3}, Bytes(12)});
  return safetensors_file(tensors, R"({"format":"pt","ä":""})", 3);
}

// Serves a file that claims to be large, and remembers the longest read.
class LargeReader final : public ByteReader {
 public:
  LargeReader(Bytes front, std::uint64_t size_bytes) : front_(std::move(front)), size_bytes_(size_bytes) {}
  std::uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    longest_ = std::max<std::uint64_t>(longest_, bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = offset + i < front_.size() ? front_[offset + i] : ' ';
  }
  std::uint64_t longest() const { return longest_; }

 private:
  Bytes front_;
  std::uint64_t size_bytes_;
  std::string name_ = "thing";
  mutable std::uint64_t longest_ = 0;
};

}  // namespace

TEST_CASE("a header with every dtype, scalars, empty tensors, metadata and padding is read as it was written") {
  std::mt19937_64 random(testing::seed());
  const Bytes file = one_of_each_dtype(random);
  const SafetensorsHeader header = read(file);
  CHECK(tiles(header, file.size()));
  CHECK(header.tensors().size() == testing::k_all_dtypes.size() + 4);
  for (const testing::DtypeBits dtype : testing::k_all_dtypes) {
    CAPTURE(dtype.name);
    const Tensor* tensor = header.find("t." + std::string(dtype.name));
    REQUIRE(tensor != nullptr);
    CHECK(tensor->dtype->name == dtype.name);
    CHECK(tensor->dtype->bits == dtype.bits);
    CHECK(tensor->dtype->width_bytes == std::max(1u, dtype.bits / 8));
    CHECK(tensor->shape == std::vector<std::uint64_t>{4});
    CHECK(tensor->size_bytes() == 4 * dtype.bits / 8);
  }
  CHECK(header.metadata() == std::vector<std::pair<std::string, std::string>>{{"format", "pt"}, {"ä", ""}});
  CHECK(std::equal(header.front().begin(), header.front().end(), file.begin()));
  CHECK(header.find("größe")->shape == std::vector<std::uint64_t>{2, 3});
  CHECK(header.find("none") == nullptr);
}

TEST_CASE("a file that begins as another one and is as large has its header; any other is read") {
  std::mt19937_64 random(1);
  const Bytes file = one_of_each_dtype(random);
  const auto known = std::make_shared<const SafetensorsHeader>(read(file));
  const auto read_like = [&](const Bytes& bytes, const std::shared_ptr<const SafetensorsHeader>& other) {
    return SafetensorsHeader::read_like(MemoryReader(bytes, "thing"), other);
  };
  Bytes other_values = file;
  other_values.back() ^= 1;
  CHECK(read_like(other_values, known) == known);
  CHECK(read_like(file, nullptr)->is_laid_out_like(*known));
  // Another header: one name is another, all else is the same.
  Bytes other_name = file;
  *std::search(other_name.begin(), other_name.end(), std::begin("scalar"), std::end("scalar") - 1) = 'S';
  const auto other = read_like(other_name, known);
  CHECK(other != known);
  CHECK(other->find("Scalar") != nullptr);
  // The same header, another size.
  for (Bytes damaged : {Bytes(file.begin(), file.end() - 1), file}) {
    damaged.resize(damaged.size() == file.size() ? file.size() + 1 : damaged.size());
    CHECK(fault_of([&] { read_like(damaged, known); }) == Fault::corrupt);
  }
}

TEST_CASE("files without tensors, and headers that list tensors in any order, are files too") {
  for (const char* header :
       {"{}", "{}      ", R"({"__metadata__":{}})", R"({"__metadata__":null})", R"({"__metadata__":{"a":"b"}})"}) {
    CHECK(reading(raw_safetensors(header, {})) == std::nullopt);
  }
  const SafetensorsHeader header = read(raw_safetensors(
      R"({"b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]},"e":{"dtype":"U8","shape":[0],"data_offsets":[3,3]},)"
      R"("a":{"shape":[3],"data_offsets":[0,3],"dtype":"I8"}})",
      Bytes(8)));
  REQUIRE(header.tensors().size() == 3);
  CHECK(header.tensors()[0].name == "a");
  CHECK(header.tensors()[1].name == "e");
  CHECK(header.tensors()[2].name == "b");
}

TEST_CASE("a header that is not of the described form is refused as corrupt") {
  const auto tensor = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return reading(std::string(R"({"a":{"dtype":)") + std::string(dtype) + ",\"shape\":" + std::string(shape) +
                   ",\"data_offsets\":" + std::string(offsets) + "}}");
  };
  REQUIRE(tensor("\"U8\"", "[8]", "[0,8]") == std::nullopt);
  REQUIRE(tensor("\"I64\"", "[]", "[0,8]") == std::nullopt);
  for (const char* dtype : {"\"U7\"", "\"u8\"", "\"\"", "8", "null", "[\"U8\"]", "\"F8\"", "\"FLOAT\""}) {
    CAPTURE(dtype);
    CHECK(tensor(dtype, "[8]", "[0,8]") == Fault::corrupt);
  }
  for (const char* shape : {"[7]", "[9]", "[2,5]", "[0]", "[]", "8", "null", "\"8\"", "[-8]", "[8.0]", "[8,1.0]",
                            "[\"8\"]", "[[8]]", "[1e1]", "[18446744073709551616]", "{\"0\":8}"}) {
    CAPTURE(shape);
    CHECK(tensor("\"U8\"", shape, "[0,8]") == Fault::corrupt);
  }
  const auto of_ones = [&](int extents) {
    std::string shape = "[8";
    for (int i = 1; i < extents; ++i) shape += ",1";
    return tensor("\"U8\"", shape + "]", "[0,8]");
  };
  CHECK(of_ones(255) == std::nullopt);
  CHECK(of_ones(256) == Fault::corrupt);
  for (const char* offsets : {"[0,7]", "[1,8]", "[0,9]", "[8,0]", "[1,9]", "[-1,7]", "[0]", "[]", "[0,4,8]", "8",
                              "null", "[0,8.0]", "[\"0\",\"8\"]", "[0,18446744073709551615]",
                              "[18446744073709551608,18446744073709551616]", "[18446744073709551615,7]"}) {
    CAPTURE(offsets);
    CHECK(tensor("\"U8\"", "[8]", offsets) == Fault::corrupt);
  }
  for (const char* header :
       {"", "[]", "null", "1", " {}", "[{}]", "{", "{}}", "{\"a\":1}", "{\"a\":null}", "{\"a\":{}}",
        R"({"a":{"dtype":"U8","shape":[8]}})", R"({"a":{"dtype":"U8","data_offsets":[0,8]}})",
        R"({"a":{"shape":[8],"data_offsets":[0,8]}})", R"({"__metadata__":[]})", R"({"__metadata__":{"a":1}})",
        R"({"__metadata__":{"a":{"b":"c"}}})"}) {
    CAPTURE(header);
    CHECK(reading(header) == Fault::corrupt);
    CHECK(reading(raw_safetensors(header, {})) == Fault::corrupt);
  }
}

TEST_CASE("gaps, overlaps, left-over bytes and repeated names are refused as corrupt") {
  const auto two = [](std::string_view a, std::string_view b, const char* second = "b") {
    return reading(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + std::string(a) + "},\"" + second +
                   R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(b) + "}}");
  };
  REQUIRE(two("[0,4]", "[4,8]") == std::nullopt);
  REQUIRE(two("[4,8]", "[0,4]") == std::nullopt);
  for (const auto& [a, b] : {std::pair("[0,4]", "[0,4]"), {"[0,4]", "[3,7]"}, {"[4,8]", "[4,8]"}, {"[4,8]", "[3,7]"}}) {
    CHECK(two(a, b) == Fault::corrupt);
  }
  CHECK(two("[0,4]", "[4,8]", "a") == Fault::corrupt);
  CHECK(two("[0,4]", "[4,8]", "\\u0061") == Fault::corrupt);
  CHECK(reading(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})") == Fault::corrupt);
  CHECK(reading("{}") == Fault::corrupt);
}

TEST_CASE("a shape whose product passes 2^64 is refused, not wrapped") {
  const auto shaped = [](std::string_view dtype, std::string_view shape) {
    return reading(std::string(R"({"a":{"dtype":")") + std::string(dtype) + R"(","shape":)" + std::string(shape) +
                   R"(,"data_offsets":[0,8]}})");
  };
  for (const char* shape :
       {"[18446744073709551615]", "[18446744073709551615,18446744073709551615]", "[4294967296,4294967296]",
        "[4294967296,4294967296,8]", "[2305843009213693953]", "[9223372036854775809,2,8]"}) {
    CAPTURE(shape);
    for (const testing::DtypeBits dtype : testing::k_all_dtypes) CHECK(shaped(dtype.name, shape) == Fault::corrupt);
  }
  CHECK(reading(raw_safetensors(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", Bytes(1))) ==
        Fault::corrupt);
  CHECK(reading(raw_safetensors(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", Bytes(2))) ==
        Fault::corrupt);
}

TEST_CASE("a header length beyond the file or the limit is refused before anything of that size is read") {
  for (const std::uint64_t length : {std::uint64_t{1} << 60, std::uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7,
                                     SafetensorsHeader::k_longest_header + 1}) {
    Bytes front;
    for (unsigned shift = 0; shift < 64; shift += 8) front.push_back(static_cast<std::uint8_t>(length >> shift));
    front.push_back('{');
    for (const std::uint64_t size : {std::uint64_t{9}, std::uint64_t{1} << 40, UINT64_MAX}) {
      const LargeReader reader(front, size);
      CHECK(fault_of([&] { SafetensorsHeader::read(reader); }) == Fault::corrupt);
      CHECK(reader.longest() <= 8);
    }
  }
  const LargeReader just_cut({0x00, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{'}, 100'000'007);
  CHECK(fault_of([&] { SafetensorsHeader::read(just_cut); }) == Fault::corrupt);
  CHECK(just_cut.longest() <= 8);
}

TEST_CASE("every proper prefix of a file is refused as corrupt, and so is one byte more") {
  std::mt19937_64 random(testing::seed());
  Bytes file = one_of_each_dtype(random);
  for (std::size_t length = 0; length < file.size(); ++length) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    if (reading(cut) != Fault::corrupt) FAIL("cut at ", length);
  }
  file.push_back(0);
  CHECK(reading(file) == Fault::corrupt);
}

TEST_CASE("a header with any byte changed is refused, or its tensors still tile the file exactly") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const Bytes file = one_of_each_dtype(random);
  const std::size_t front_bytes = read(file).front().size();
  std::size_t accepted = 0;
  const auto check = [&](std::size_t at, std::uint8_t byte) {
    Bytes changed = file;
    changed[at] = byte;
    std::optional<SafetensorsHeader> header;
    const auto fault = fault_of([&] { header = read(changed); });
    if (fault && fault != Fault::corrupt) FAIL("byte ", at, " as ", int{byte}, ": ", testing::name_of(*fault));
    if (header && !tiles(*header, changed.size())) FAIL("byte ", at, " as ", int{byte}, ": does not tile the file");
    accepted += header ? 1 : 0;
  };
  for (std::size_t at = 0; at < front_bytes; ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) check(at, static_cast<std::uint8_t>(file[at] ^ 1u << bit));
    for (const char byte : {'0', '9', '"', '{', '}', '[', ']', ',', ':', '\\', ' ', '-'}) {
      check(at, static_cast<std::uint8_t>(byte));
    }
    check(at, static_cast<std::uint8_t>(random()));
  }
  CHECK(accepted > 0);  // names may change
}

TEST_CASE("of a file every proper prefix is cut short, the file itself and what is no such file are not") {
  std::mt19937_64 random(testing::seed());
  const auto cut_short = [](Bytes bytes) { return is_cut_short(MemoryReader(std::move(bytes), "thing")); };
  const Bytes files[] = {one_of_each_dtype(random), safetensors_file({}), safetensors_file({}, R"({"format":"pt"})", 3),
                         safetensors_file({{"empty", "F32", {0}, {}}})};
  for (const Bytes& file : files) {
    CHECK_FALSE(cut_short(file));
    for (std::size_t length = 0; length < file.size(); ++length) {
      if (!cut_short({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length)})) FAIL("cut at ", length);
    }
    Bytes longer = file;
    longer.push_back(0);
    CHECK_FALSE(cut_short(longer));
    // Damage is something else: whatever byte of the header is changed, this throws nothing.
    for (std::size_t at = 0; at < read(file).front().size(); ++at) {
      Bytes changed = file;
      changed[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
      cut_short(changed);
    }
  }
  CHECK_FALSE(cut_short(raw_safetensors("[]", {})));
  CHECK_FALSE(cut_short(raw_safetensors(R"({"a":{"data_offsets":[0,"9"]},"b":{"data_offsets":9},"c":9})", {})));
  CHECK_FALSE(cut_short(raw_safetensors(R"({"a":{"data_offsets":[0,-9]},"b":{"data_offsets":[9]}})", {})));
  CHECK_FALSE(cut_short(Bytes(100, 0x20)));
  CHECK_FALSE(cut_short(Bytes(100)));
  // A length beyond what a header may have is none that is still to come.
  const LargeReader large({0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{'}, 1000);
  CHECK_FALSE(is_cut_short(large));
  CHECK(large.longest() <= 8);
}

TEST_CASE("a file of bytes is laid out as a body of whole elements and a tail of the bytes that are left") {
  for (const testing::DtypeBits dtype : testing::k_all_dtypes) {
    const Dtype& type = *dtype_named(dtype.name);
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{8}, std::uint64_t{1001}, UINT64_MAX}) {
      const SafetensorsHeader header = SafetensorsHeader::of_bytes(size, type);
      CHECK(tiles(header, size));
      CHECK(header.front().empty());
      REQUIRE(header.tensors().size() == 2);
      CHECK(header.find("body") == &header.tensors()[0]);
      CHECK(header.find("tail") == &header.tensors()[1]);
      CHECK(header.tensors()[0].dtype == &type);
      CHECK(header.tensors()[1].dtype == dtype_named("U8"));
      CHECK(header.tensors()[1].size_bytes() == size % type.width_bytes);
      for (const testing::DtypeBits other : testing::k_all_dtypes) {
        const auto seen = SafetensorsHeader::of_bytes(size, *dtype_named(other.name));
        CHECK(header.is_laid_out_like(seen) == (other.name == dtype.name));
      }
      CHECK(header.is_laid_out_like(SafetensorsHeader::of_bytes(size ^ 1, type)) == false);
    }
  }
}

}  // namespace wdelta
