// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"
#include "store/xet/chunker.hpp"
#include "store/xet/gear_table.hpp"
#include "store/xet/xet_hash.hpp"
#include "store/xet_vectors.hpp"
#include "testing/execution.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

using namespace wdelta;
using testing::cut;
using testing::xet_vectors;

namespace {

/// The cutting rule as the protocol has it: one hash, byte by byte, from the start of each chunk.
std::vector<std::size_t> ends_by_the_rule(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::size_t> ends;
  std::uint64_t hash = 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    hash = (hash << 1) + k_gear_table[bytes[i]];
    ++size;
    if (size < k_shortest_chunk_bytes) continue;
    if (size < k_longest_chunk_bytes && hash >> 48 != 0) continue;
    ends.push_back(i + 1);
    hash = 0;
    size = 0;
  }
  if (size > 0) ends.push_back(bytes.size());
  return ends;
}

/// The tree as the protocol has it: all nodes of a level at once.
XetHash root_by_the_rule(std::vector<std::pair<XetHash, std::uint64_t>> nodes) {
  constexpr Blake3Key k_node_key = {1,  126, 197, 199, 165, 71,  41,  150, 253, 148, 102, 102, 180, 138, 2,   230,
                                    93, 221, 83,  111, 55,  199, 109, 210, 248, 99,  82,  230, 74,  83,  113, 63};
  if (nodes.empty()) return {};
  while (nodes.size() > 1) {
    std::vector<std::pair<XetHash, std::uint64_t>> parents;
    for (std::size_t at = 0; at < nodes.size();) {
      const std::size_t left = nodes.size() - at;
      std::size_t size = std::min<std::size_t>(left, 9);
      for (std::size_t i = 2; left > 2 && i < std::min<std::size_t>(left, 9); ++i) {
        if ((nodes[at + i].first.bytes[24] & 3) == 0) {
          size = i + 1;
          break;
        }
      }
      std::string text;
      std::uint64_t sum = 0;
      for (std::size_t i = at; i < at + size; ++i) {
        text += nodes[i].first.text() + " : " + std::to_string(nodes[i].second) + "\n";
        sum += nodes[i].second;
      }
      Blake3 hasher = Blake3::keyed(k_node_key);
      hasher.update(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
      parents.push_back({XetHash{hasher.finish().bytes}, sum});
      at += size;
    }
    nodes = std::move(parents);
  }
  return nodes.front().first;
}

}  // namespace

TEST_CASE("the gear table is the protocol's") {
  std::vector<std::uint8_t> bytes;
  for (const std::uint64_t value : k_gear_table) {
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
  CHECK(blake3(bytes).hex() == "f60341922f1af687111d59d36d19c4726158eefb2544163b58ff06de0509ec0c");
}

TEST_CASE("a Xet hash is written as four little-endian numbers") {
  XetHash hash;
  for (std::size_t i = 0; i < 32; ++i) hash.bytes[i] = static_cast<std::uint8_t>(i);
  const std::string text = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918";
  CHECK(hash.text() == text);
  CHECK(XetHash::parse(text) == hash);
  CHECK_FALSE(XetHash::parse(text.substr(1)));
  CHECK_FALSE(XetHash::parse("G" + text.substr(1)));
  CHECK_FALSE(XetHash::parse(text + "0"));
}

TEST_CASE("chunks, their hashes, roots, file and verification hashes of all published inputs are right") {
  REQUIRE(xet_vectors().at("generated").size() == 12);
  for (const auto& item : xet_vectors().at("generated").items()) {
    const std::string name = item.key();
    const nlohmann::json& expected = item.value();
    CAPTURE(name);
    const auto bytes = testing::xet_input(name, expected.at("len"));
    REQUIRE(bytes.size() == expected.at("len"));
    const testing::CutFile found = cut(bytes);
    CHECK(found.ends == expected.at("boundaries").get<std::vector<std::size_t>>());
    CHECK(found.hashes == expected.at("chunk_hashes").get<std::vector<std::string>>());
    CHECK(found.root.text() == expected.at("xorb_hash"));
    CHECK(found.file.text() == expected.at("file_hash"));
    CHECK(xet_file_hash(MemoryReader(bytes, name), testing::SilentExecution()).text() == expected.at("file_hash"));
    if (expected.at("verification_hash").is_null()) continue;
    XetVerification verification;
    for (const std::string& hash : found.hashes) verification.add(XetHash::parse(hash).value());
    CHECK(verification.finish().text() == expected.at("verification_hash"));
  }
}

TEST_CASE("the published patterns, one at each alignment of 128, are cut at the published places") {
  const auto& pattern = xet_vectors().at("cdc_padded_pattern");
  const auto base = pattern.at("base").get<std::vector<std::uint8_t>>();
  REQUIRE(pattern.at("boundaries").size() == 128);
  for (std::size_t padding = 0; padding < 128; ++padding) {
    CAPTURE(padding);
    // The pattern and the padding, again and again.
    std::vector<std::uint8_t> bytes(65536);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t at = i % (base.size() + padding);
      bytes[i] = at < base.size() ? base[at] : 0;
    }
    REQUIRE(bytes[11111] == pattern.at("sample_at_11111").at(padding));
    CHECK(cut(bytes).ends == pattern.at("boundaries").at(padding).get<std::vector<std::size_t>>());
  }
}

TEST_CASE("trees over the published lists of chunks have the published roots and file hashes") {
  REQUIRE(xet_vectors().at("merkle_aggregation").size() == 18);
  for (const auto& list : xet_vectors().at("merkle_aggregation")) {
    XetTree tree;
    for (const auto& node : list.at("nodes"))
      tree.add(XetHash::parse(node.at(0).get<std::string>()).value(), node.at(1));
    CAPTURE(list.at("nodes").size());
    CHECK(tree.root().text() == list.at("xorb_hash"));
    const auto& unsalted = list.at("file_hash_by_salt").at(0);
    REQUIRE(XetHash::parse(unsalted.at(0).get<std::string>()) == XetHash{});
    CHECK(tree.file_hash().text() == unsalted.at(1));
  }
  XetTree two;
  two.add(XetHash::parse("c28f58387a60d4aa200c311cda7c7f77f686614864f5869eadebf765d0a14a69").value(), 100);
  two.add(XetHash::parse("6e4e3263e073ce2c0e78cc770c361e2778db3b054b98ab65e277fc084fa70f22").value(), 200);
  CHECK(two.root().text() == "be64c7003ccd3cf4357364750e04c9592b3c36705dee76a71590c011766b6c14");
}

TEST_CASE("a tree built node by node has the root that the rule gives for all nodes at once") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (std::size_t count = 0; count < 400; count = count < 120 ? count + 1 : count + 17) {
    CAPTURE(count);
    std::vector<std::pair<XetHash, std::uint64_t>> nodes(count);
    XetTree tree;
    // At times every hash ends a group, or none does.
    const std::uint64_t kind = random() % 3;
    for (auto& [hash, size] : nodes) {
      for (std::uint8_t& byte : hash.bytes) byte = static_cast<std::uint8_t>(random());
      if (kind == 0) hash.bytes[24] &= 0xfc;
      if (kind == 1) hash.bytes[24] |= 1;
      size = random() % 131072 + 1;
      tree.add(hash, size);
    }
    REQUIRE(tree.root() == root_by_the_rule(nodes));
  }
}

TEST_CASE("chunks do not depend on threads or on how much is read at a time") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  std::vector<std::vector<std::uint8_t>> files;
  files.push_back(testing::random_bytes(random, 3'000'000 + random() % 200));
  // Chunks of the greatest length, so that the cut falls on the end of what was read.
  files.emplace_back(5 * k_longest_chunk_bytes, std::uint8_t{0});
  // A byte whose repetition matches everywhere, if there is one, and stretches that match far too often.
  const auto pattern = xet_vectors().at("cdc_padded_pattern").at("base").get<std::vector<std::uint8_t>>();
  files.emplace_back();
  while (files.back().size() < 700'000) {
    if (random() % 3 == 0) files.back().insert(files.back().end(), pattern.begin(), pattern.end());
    const auto more = testing::random_bytes(random, random() % 64);
    files.back().insert(files.back().end(), more.begin(), more.end());
  }
  for (const auto& bytes : files) {
    const testing::CutFile expected = cut(bytes);
    CHECK(expected.ends == ends_by_the_rule(bytes));
    for (const unsigned threads : {1, 3}) {
      const testing::SilentExecution execution(threads);
      for (const std::size_t stretch_bytes : {64, 8192, 65536 + 64, 131072, 1 << 21}) {
        CAPTURE(stretch_bytes);
        if (stretch_bytes == 64 && bytes.size() > 800'000) continue;
        XetChunker chunker(execution, stretch_bytes);
        REQUIRE(cut(chunker, bytes) == expected);
        REQUIRE(cut(chunker, bytes) == expected);  // what the last file left behind does not matter
      }
    }
  }
}

TEST_CASE("files of any short length are cut by the rule") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 300'000);
  for (const std::size_t edge : {0, 64, 8127, 8192, 65536, 131072, 139264, 262144}) {
    for (std::size_t size = edge < 2 ? 0 : edge - 2; size <= edge + 2; ++size) {
      CAPTURE(size);
      const std::vector<std::uint8_t> file(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      REQUIRE(cut(file).ends == ends_by_the_rule(file));
    }
  }
}
