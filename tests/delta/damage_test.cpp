// SPDX-License-Identifier: Apache-2.0
// Deltas and bases that are not what they claim to be.
#include "base/cursor.hpp"
#include "base/json.hpp"
#include "delta/container.hpp"
#include "delta/deltas.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <zstd.h>

namespace wdelta {

using namespace testing;

namespace {

/// A small delta with changed, unchanged and new tensors.
struct SmallDelta {
  PlacedFile base;
  PlacedFile next;
  Bytes delta;

  SmallDelta(bool in_place, std::mt19937_64& random) {
    std::vector<TestTensor> tensors;
    for (const char* name : {"a", "b", "c"}) tensors.push_back(random_tensor(name, {"BF16", 16}, 60, random));
    base = {"m.safetensors", safetensors_file(tensors)};
    const TestTensor unchanged = tensors[1];
    tensors = with_changes(tensors, 0.2, random);
    tensors[0].bytes[0] ^= 1;
    tensors[1] = unchanged;
    if (!in_place) tensors.push_back(random_tensor("d", {"F32", 32}, 10, random));
    next = {"m.safetensors", safetensors_file(tensors)};
    delta = make_delta({base}, next).bytes;
  }
};

/// What opening and checking a delta throws.
std::optional<Fault> checking(const Bytes& delta) {
  return fault_of([&] { open_delta(delta)->check_payload(SilentExecution()); });
}

std::optional<Fault> applying(const Bytes& delta, const PlacedFile& base) {
  return fault_of([&] { write_version(version_of(delta, {base}), nullptr, SilentExecution()); });
}

using Edit = std::function<void(Json&)>;

}  // namespace

TEST_CASE("a delta that is cut at any length, or has any byte flipped, is refused as corrupt") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const bool in_place : {true, false}) {
    const SmallDelta small(in_place, random);
    REQUIRE(checking(small.delta) == std::nullopt);
    const std::size_t payload = SafetensorsHeader::read(MemoryReader(small.delta, "delta")).front().size();
    for (std::size_t length = 0; length < small.delta.size(); ++length) {
      const Bytes cut(small.delta.begin(), small.delta.begin() + static_cast<std::ptrdiff_t>(length));
      if (checking(cut) != Fault::corrupt) FAIL("cut at ", length);
    }
    for (std::size_t at = 0; at < small.delta.size(); ++at) {
      for (unsigned flip = 1; flip < 256; flip = flip < 128 ? 2 * flip : flip + 127) {
        Bytes changed = small.delta;
        changed[at] ^= static_cast<std::uint8_t>(flip);
        const auto fault = checking(changed);
        // The payload is checked last: an encoding's number in the block index may turn into that of one to come.
        const bool other_encoding = fault == Fault::unsupported && at >= payload;
        if (fault != Fault::corrupt && !other_encoding) {
          FAIL("byte ", at, " flipped by ", flip, ": ", fault ? name_of(*fault) : "taken");
        }
      }
    }
    Bytes longer = small.delta;
    longer.push_back(0);
    CHECK(checking(longer) == Fault::corrupt);
  }
}

TEST_CASE("a base with any bit of a tensor flipped is a base mismatch, and so is any other file") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const bool in_place : {true, false}) {
    const SmallDelta small(in_place, random);
    const std::size_t front = SafetensorsHeader::read(*reader_of(small.base)).front().size();
    for (std::size_t at = front; at < small.base.bytes.size(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        PlacedFile wrong = small.base;
        wrong.bytes[at] ^= static_cast<std::uint8_t>(1u << bit);
        if (applying(small.delta, wrong) != Fault::base_mismatch) FAIL("byte ", at, ", bit ", bit);
      }
    }
    // A header that is damaged may make it no safetensors file at all.
    for (std::size_t at = 0; at < front; ++at) {
      PlacedFile wrong = small.base;
      wrong.bytes[at] ^= 1;
      const auto fault = applying(small.delta, wrong);
      if (fault != Fault::base_mismatch && fault != Fault::corrupt) FAIL("byte ", at);
    }
    CHECK(applying(small.delta, {small.base.path, safetensors_file({})}) == Fault::base_mismatch);
    CHECK(applying(small.delta, {small.base.path, small.next.bytes}) == Fault::base_mismatch);
  }
}

TEST_CASE("a wrong base is a base mismatch even where its bits break the coding") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = std::vector{random_tensor("a", {"BF16", 16}, 65'536 * 40, random)};
  const PlacedFile base{"m.safetensors", safetensors_file(tensors)};
  const Bytes delta =
      make_delta({base}, {"m.safetensors", safetensors_file(with_changes(tensors, 0.02, random))}).bytes;
  PlacedFile wrong = base;
  const auto other = random_bytes(random, wrong.bytes.size() - 1000);
  std::copy(other.begin(), other.end(), wrong.bytes.begin() + 1000);
  CHECK(applying(delta, wrong) == Fault::base_mismatch);
}

TEST_CASE("a delta that lies about its result is found out when it is applied") {
  std::mt19937_64 random(seed());
  for (const bool in_place : {true, false}) {
    const SmallDelta small(in_place, random);
    const Bytes lying = forged(small.delta, [](Json& header) {
      std::string& result = header["__metadata__"]["result"].get_ref<std::string&>();
      Json json = Json::parse(result);
      json["digest"] = std::string(64, '7');
      result = json.dump();
    });
    CHECK(checking(lying) == std::nullopt);
    CHECK(applying(lying, small.base) == Fault::corrupt);
  }
}

TEST_CASE("a sealed delta whose metadata is not of its form is refused as corrupt, or as of another version") {
  std::mt19937_64 random(seed());
  const SmallDelta small(false, random);
  REQUIRE(checking(forged(small.delta, [](Json&) {})) == std::nullopt);
  for (const std::string key :
       {"format", "version", "base", "result", "header", "index", "elements", "changed", "payload", "digest"}) {
    CAPTURE(key);
    const auto fault =
        applying(forged(small.delta, [&](Json& header) { header["__metadata__"].erase(key); }), small.base);
    CHECK(fault == (key == "version" ? Fault::unsupported : Fault::corrupt));
    for (const std::string value :
         {"", "5", "x", "-1", "{}", "[[]]", "[1]", "null", "{\"path\":\"a\"}", "99999999999999999999"}) {
      const bool is_number = key == "elements" || key == "changed";
      if (key == "digest" || (is_number && value == "5")) continue;
      CAPTURE(value);
      const auto forgery = forged(small.delta, [&](Json& header) { header["__metadata__"][key] = value; });
      CHECK(applying(forgery, small.base) == (key == "version" ? Fault::unsupported : Fault::corrupt));
    }
  }
}

TEST_CASE("who has a delta of another version is told whether an older or a newer program knows it") {
  std::mt19937_64 random(seed());
  const SmallDelta small(false, random);
  const auto hint_for = [&](const std::string& version) -> std::string {
    try {
      open_delta(forged(small.delta, [&](Json& header) { header["__metadata__"]["version"] = version; }));
    } catch (const Error& error) {
      return error.hint();
    }
    return {};
  };
  const int newest = std::stoi(std::string(k_delta_version));
  REQUIRE(hint_for(std::to_string(newest)).empty());
  for (int older = 1; older < newest; ++older)
    CHECK(hint_for(std::to_string(older)) == "no release made such: use the build that did");
  for (const std::string& other : {std::to_string(newest + 1), std::string("10"), std::string("x"), std::string("1x")})
    CHECK(hint_for(other) == "use a newer wdelta");
}

TEST_CASE("an index or names that would take much memory are refused before they do") {
  std::mt19937_64 random(seed());
  const SmallDelta small(false, random);
  // Why a delta is refused whose index, behind its other entries, says this.
  const auto refused = [&](const Bytes& index) {
    Bytes frame(ZSTD_compressBound(index.size()));
    frame.resize(ZSTD_compress(frame.data(), frame.size(), index.data(), index.size(), 3));
    Bytes delta = small.delta;
    delta.insert(delta.end(), frame.begin(), frame.end());
    return message_of([&] {
      open_delta(forged(delta, [&](Json& header) {
        std::uint64_t end = 0;
        for (const auto& [key, entry] : header.items()) {
          if (key != "__metadata__") end = std::max(end, entry["data_offsets"][1].get<std::uint64_t>());
        }
        header["forged"] = {{"dtype", "U8"}, {"shape", {frame.size()}}, {"data_offsets", {end, end + frame.size()}}};
        header["__metadata__"]["index"] = "forged";
      }));
    });
  };
  CHECK(refused(Bytes(16 << 20)).find("at most") == std::string::npos);  // but for what it says
  CHECK(refused(Bytes(17 << 20)).find("holds 17825792 bytes, at most") != std::string::npos);

  // Each name is all but the end of the one before it, and another letter.
  constexpr std::uint64_t k_length = std::uint64_t{1} << 20;
  const auto with_names = [&](std::uint64_t count) {
    Bytes index{k_bundle_encoding};
    append_varint(index, count + 1);
    append_varint(index, 0);
    append_varint(index, k_length);
    index.insert(index.end(), k_length, 'a');
    append_varint(index, 0);  // no blocks
    for (std::uint64_t i = 1; i < count; ++i) {
      append_varint(index, k_length - i);
      append_varint(index, 1);
      index.push_back('b');
      append_varint(index, 0);
    }
    return refused(index);
  };
  CHECK(with_names(16).find("block index: ") != std::string::npos);  // it ends too early
  CHECK(with_names(17).find("more bytes than its block index may tell") != std::string::npos);
}

TEST_CASE("sources that name no file, no tensor or one of another type are refused") {
  std::mt19937_64 random(seed());
  const SmallDelta small(false, random);
  const auto with_sources = [&](const std::string& sources) {
    return applying(forged(small.delta, [&](Json& header) { header["__metadata__"]["sources"] = sources; }),
                    small.base);
  };
  REQUIRE(with_sources(R"({"d":null})") == std::nullopt);
  for (const char* source : {"[1,\"a\"]", "[18446744073709551615,\"a\"]", "[-1,\"a\"]", "[0]", "[0,1]", "[0,\"a\",1]",
                             "\"a\"", "0", "{}", "[\"0\",\"a\"]", "[0.0,\"a\"]"}) {
    CAPTURE(source);
    CHECK(with_sources(std::string(R"({"d":null,"a":)") + source + "}") == Fault::corrupt);
  }
  CHECK(with_sources(R"({"d":null,"a":[0,"none"]})") == Fault::base_mismatch);
  CHECK(with_sources(R"({"d":[0,"a"]})") == Fault::base_mismatch);
  CHECK(with_sources(R"({"d":null,"b":null})") == Fault::corrupt);  // neither source nor entry
  CHECK(with_sources(R"({"d":null,"a":[0,"b"]})").has_value());     // another tensor's bits: the digest tells
}

TEST_CASE("entries that do not fit the result or the block index are refused as corrupt") {
  std::mt19937_64 random(seed());
  // Too large to share an entry.
  const auto tensors = [&] {
    return safetensors_file(std::vector{random_tensor("a", {"BF16", 16}, 40'000, random),
                                        random_tensor("c", {"BF16", 16}, 40'000, random)});
  };
  const PlacedFile base{"m.safetensors", tensors()};
  const Bytes delta = make_delta({base}, {"m.safetensors", tensors()}).bytes;
  const auto with_header = [&](const Edit& edit) { return applying(forged(delta, edit), base); };
  REQUIRE(with_header([](Json&) {}) == std::nullopt);
  CHECK(with_header([](Json& header) {
          header["none"] = header["a"];
          header.erase("a");
        }) == Fault::corrupt);
  CHECK(with_header([](Json& header) {  // an entry for a tensor with too many blocks for it
          header["__metadata__"]["index"] = "a";
        })
            .has_value());
  CHECK(with_header([](Json& header) { header["a"]["dtype"] = "I8"; }) == Fault::corrupt);
  CHECK(with_header([](Json& header) { header["a"]["shape"].push_back(1); }) == Fault::corrupt);
  CHECK(with_header([](Json& header) { header["__metadata__"]["index"] = "none"; }) == Fault::corrupt);
  CHECK(with_header([](Json& header) { header["__metadata__"]["header"] = "none"; }) == Fault::corrupt);
  CHECK(with_header([](Json& header) { header["__metadata__"]["header"] = "a"; }) == Fault::corrupt);
  CHECK(with_header([](Json& header) { header["__metadata__"]["base"] = "[]"; }) == Fault::corrupt);
  CHECK(with_header([](Json& header) {  // one byte taken from one entry and given to the next
          for (const char* side : {"a", "c"}) {
            Json& offsets = header[side]["data_offsets"];
            const int moved = side[0] == 'a' ? 1 : 0;
            offsets[static_cast<std::size_t>(moved)] =
                offsets[static_cast<std::size_t>(moved)].get<std::uint64_t>() - 1;
            header[side]["shape"][0] = offsets[1].get<std::uint64_t>() - offsets[0].get<std::uint64_t>();
          }
        }) == Fault::corrupt);
}

TEST_CASE("small tensors share an entry, whose name means nothing") {
  std::mt19937_64 random(seed());
  const SmallDelta small(true, random);
  const std::string bundle = "wdelta.bundle.0";
  CHECK(open_delta(small.delta)->entries().size() == 2);
  const auto with_name = [&](const std::string& name) {
    return applying(forged(small.delta,
                           [&](Json& header) {
                             header[name] = header.at(bundle);
                             header.erase(bundle);
                           }),
                    small.base);
  };
  CHECK(with_name("any") == std::nullopt);
  CHECK(with_name("a") == std::nullopt);
  CHECK(with_name("b") == std::nullopt);
}

TEST_CASE("what is no delta is refused as corrupt") {
  std::mt19937_64 random(seed());
  CHECK(checking({}) == Fault::corrupt);
  CHECK(checking(bytes_of("not a delta at all")) == Fault::corrupt);
  CHECK(checking(safetensors_file({})) == Fault::corrupt);
  CHECK(checking(safetensors_file({}, R"({"format":"pt"})")) == Fault::corrupt);
  CHECK(checking(safetensors_file({}, R"({"format":"wdelta-delta","version":"1"})")) == Fault::corrupt);
}

}  // namespace wdelta
