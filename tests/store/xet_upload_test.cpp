// SPDX-License-Identifier: Apache-2.0
#include "store/xet/xet_upload.hpp"

#include "store/xet_vectors.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace wdelta;
using testing::fault_of;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::uint32_t number_at(const Bytes& bytes, std::size_t offset) {
  std::uint32_t number = 0;
  for (unsigned i = 0; i < 4; ++i) number |= std::uint32_t{bytes.at(offset + i)} << 8 * i;
  return number;
}

XetHash hash_at(const Bytes& bytes, std::size_t offset) {
  XetHash hash;
  for (std::size_t i = 0; i < 32; ++i) hash.bytes[i] = bytes.at(offset + i);
  return hash;
}

/// A Hub that takes what comes, puts files together from it, and believes nothing.
class TestHub final : public XetSink {
 public:
  void xorb(Xorb&& xorb) override {
    bodies.emplace_back(xorb.body.begin(), xorb.body.end());
    contents.push_back(read_xorb(bodies.back(), "xorb"));
    const std::vector<XetChunk>& chunks = contents.back();
    REQUIRE(chunks.size() == xorb.chunks.size());
    XetTree tree;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      REQUIRE(chunks[i].hash == xorb.chunks[i].hash);
      REQUIRE(chunks[i].bytes.size() == xorb.chunks[i].size_bytes);
      tree.add(chunks[i].hash, chunks[i].bytes.size());
    }
    REQUIRE(tree.root() == xorb.hash);
    largest_xorb_bytes = std::max(largest_xorb_bytes, xorb.body.size());
    xorbs[xorb.hash] = bodies.size() - 1;
  }

  void shard(Bytes&& body) override {
    shards.push_back(body);
    std::size_t at = 48;
    const XetHash end = hash_at(Bytes(32, 0xff), 0);
    for (; hash_at(body, at) != end; at += 48) {
      const XetHash name = hash_at(body, at);
      REQUIRE(number_at(body, at + 32) == 0x80000000);
      const std::uint32_t terms = number_at(body, at + 36);
      Bytes file;
      XetTree tree;
      for (std::uint32_t term = 0; term < terms; ++term) {
        at += 48;
        REQUIRE(xorbs.contains(hash_at(body, at)));
        const std::vector<XetChunk>& chunks = contents.at(xorbs.at(hash_at(body, at)));
        const std::size_t before = file.size();
        XetVerification verification;
        for (std::uint32_t i = number_at(body, at + 40); i < number_at(body, at + 44); ++i) {
          file.insert(file.end(), chunks.at(i).bytes.begin(), chunks.at(i).bytes.end());
          tree.add(chunks.at(i).hash, chunks.at(i).bytes.size());
          verification.add(chunks.at(i).hash);
        }
        REQUIRE(file.size() - before == number_at(body, at + 36));
        REQUIRE(verification.finish() == hash_at(body, at + 48 * terms));
      }
      at += 48 * terms;
      REQUIRE(tree.file_hash() == name);
      REQUIRE_FALSE(files.contains(name));
      files[name] = file;
    }
    for (at += 48; hash_at(body, at) != end; at += 48) {
      const Bytes& xorb = bodies.at(xorbs.at(hash_at(body, at)));
      const std::vector<XetChunk>& chunks = contents.at(xorbs.at(hash_at(body, at)));
      const std::size_t header = at;
      REQUIRE(number_at(body, header + 36) == chunks.size());
      REQUIRE(number_at(body, header + 44) == xorb.size());
      std::uint32_t offset = 0;
      for (const XetChunk& chunk : chunks) {
        at += 48;
        REQUIRE(hash_at(body, at) == chunk.hash);
        REQUIRE(number_at(body, at + 32) == offset);
        REQUIRE(number_at(body, at + 36) == chunk.bytes.size());
        offset += static_cast<std::uint32_t>(chunk.bytes.size());
      }
      REQUIRE(number_at(body, header + 40) == offset);
      ++told_xorbs;
    }
    REQUIRE(at + 48 == body.size());
  }

  std::vector<Bytes> bodies;
  std::vector<std::vector<XetChunk>> contents;  // of the bodies, in which they lie
  std::map<XetHash, std::size_t> xorbs;
  std::map<XetHash, Bytes> files;
  std::vector<Bytes> shards;
  std::size_t largest_xorb_bytes = 0;
  std::size_t told_xorbs = 0;
};

}  // namespace

TEST_CASE("the published upload of one file comes out byte by byte") {
  TestHub hub;
  const testing::SilentExecution execution;
  XetUpload upload(hub, execution);
  const std::string text = "Hello World!";
  const XetHash file = upload.add(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  CHECK(hub.bodies.empty());
  upload.finish();
  upload.finish();
  CHECK(file.text() == "a9dae0ad88b060bdd7e7c87abdcf95b132c95a0414b06d4f6beb68d287b87165");
  REQUIRE(hub.bodies.size() == 1);
  CHECK(hub.xorbs.begin()->first.text() == "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb");
  CHECK(hex(hub.bodies.front()) == "000c0000000c000048656c6c6f20576f726c6421");
  REQUIRE(hub.shards.size() == 1);
  CHECK(hex(hub.shards.front()) ==
        "48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa902000000000000000000000000000000"
        "bd60b088ade0daa9b195cfbd7ac8e7d74f6db014045ac9326571b887d268eb6b00000080010000000000000000000000"
        "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000001000000"
        "4ccb988e4563cb8923b7a7a5506bbe7592e648535df0824b2b86c35daf1ab75f00000000000000000000000000000000"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000"
        "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e800000000010000000c00000014000000"
        "a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000000000000"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000");
}

TEST_CASE("files of any size and number are put together again from their xorbs and shards") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  XetLimits limits;
  limits.xorb_bytes = 400'000;
  for (const std::size_t shard_bytes : {std::size_t{16} << 20, std::size_t{2000}, std::size_t{1}}) {
    limits.shard_bytes = shard_bytes;
    std::vector<Bytes> files = {{}, testing::random_bytes(random, 1), {}, Bytes(900'000, 7)};
    for (int i = 0; i < 30; ++i) files.push_back(testing::random_bytes(random, random() % 30'000));
    files.push_back(testing::random_bytes(random, 1'500'000));  // over several xorbs
    files.push_back(files[5]);                                  // known already
    for (int i = 0; i < 5; ++i) files.push_back(testing::random_bytes(random, random() % 300'000));

    TestHub hub;
    const testing::SilentExecution execution(2);
    XetUpload upload(hub, execution, limits);
    std::vector<XetHash> hashes;
    for (const Bytes& file : files) hashes.push_back(upload.add(file));
    upload.finish();
    for (std::size_t i = 0; i < files.size(); ++i) {
      REQUIRE(hub.files.contains(hashes[i]));
      CHECK(hub.files.at(hashes[i]) == files[i]);
    }
    CHECK(hashes[0] == XetHash{});
    CHECK(hub.largest_xorb_bytes <= limits.xorb_bytes);
    CHECK(hub.bodies.size() > 5);
    CHECK(hub.told_xorbs == hub.bodies.size());
    // A file or a xorb alone may be larger.
    for (const Bytes& shard : hub.shards) CHECK((shard.size() <= shard_bytes || shard_bytes < 1000));
    CHECK((hub.shards.size() > 1) == (shard_bytes <= 2000));
  }
}

TEST_CASE("an upload that is repeated makes the same xorbs, however many threads there are") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const Bytes first = testing::random_bytes(random, 700'000);
  const Bytes second = testing::random_bytes(random, 100'000);
  std::vector<Bytes> expected;
  for (const unsigned threads : {1, 2, 5}) {
    TestHub hub;
    const testing::SilentExecution execution(threads);
    XetLimits limits;
    limits.xorb_bytes = 300'000;
    XetUpload upload(hub, execution, limits);
    upload.add(first);
    upload.add(second);
    upload.finish();
    if (expected.empty()) expected = hub.bodies;
    CHECK(hub.bodies == expected);
  }
}

TEST_CASE("a xorb holds no more chunks than the Hub takes") {
  TestHub hub;
  const testing::SilentExecution execution;
  XetUpload upload(hub, execution);
  for (std::uint32_t i = 0; i < 8193; ++i) {
    const Bytes file = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8), 3};
    upload.add(file);
  }
  upload.finish();
  REQUIRE(hub.bodies.size() == 2);
  CHECK(hub.bodies[0].size() == 8192 * 11);
  CHECK(hub.bodies[1].size() == 11);
  CHECK(hub.files.size() == 8193);
}

TEST_CASE("nothing is made of no files, and a shard without xorbs of empty ones") {
  TestHub nothing;
  const testing::SilentExecution execution;
  XetUpload(nothing, execution).finish();
  CHECK(nothing.shards.empty());
  TestHub hub;
  XetUpload upload(hub, execution);
  upload.add(Bytes{});
  upload.add(Bytes{});
  upload.finish();
  CHECK(hub.bodies.empty());
  REQUIRE(hub.shards.size() == 1);
  CHECK(hub.shards[0].size() == 4 * 48);
}

TEST_CASE("memory that was let go is given out again, as it was left") {
  XorbMemory memory(100'000);
  {
    auto [piece, bytes] = memory.take();
    REQUIRE(bytes.size() == 100'000);
    bytes[5] = 7;
  }
  auto [piece, bytes] = memory.take();
  CHECK(bytes[5] == 7);  // new pages would be zero
  auto [other, other_bytes] = memory.take();
  CHECK(other_bytes[5] == 0);
  CHECK(other_bytes.data() != bytes.data());
}

TEST_CASE("a xorb that was sent makes room for a later one, and outlives the upload") {
  class Keeping final : public XetSink {
   public:
    void xorb(Xorb&& xorb) override {
      places.push_back(xorb.body.data());
      kept.push_back(std::move(xorb));
      if (kept.size() == 2) kept.erase(kept.begin());
    }
    void shard(Bytes&&) override {}
    std::vector<const std::uint8_t*> places;
    std::vector<Xorb> kept;
  } sink;
  std::mt19937_64 random(testing::seed());
  const testing::SilentExecution execution;
  {
    XetLimits limits;
    limits.xorb_bytes = 200'000;
    XetUpload upload(sink, execution, limits);
    upload.add(testing::random_bytes(random, 2'000'000));
    upload.finish();
  }
  std::sort(sink.places.begin(), sink.places.end());
  const auto distinct = std::unique(sink.places.begin(), sink.places.end()) - sink.places.begin();
  CHECK(distinct == 2);
  CHECK(read_xorb(sink.kept.back().body, "xorb").size() == sink.kept.back().chunks.size());
}

TEST_CASE("a damaged xorb is refused, and one with a footer is read") {
  Bytes body;
  Bytes raw;
  for (const std::size_t size : {std::size_t{5}, std::size_t{1}, std::size_t{300}}) {
    raw = Bytes(size, static_cast<std::uint8_t>(size));
    const std::uint8_t low = static_cast<std::uint8_t>(size);
    const std::uint8_t high = static_cast<std::uint8_t>(size >> 8);
    for (const std::uint8_t byte : {std::uint8_t{0}, low, high, std::uint8_t{0}, std::uint8_t{0}, low, high}) {
      body.push_back(byte);
    }
    body.push_back(0);
    body.insert(body.end(), raw.begin(), raw.end());
  }
  REQUIRE(read_xorb(body, "xorb").size() == 3);
  std::size_t whole = 0;
  for (std::size_t size = 0; size < body.size(); ++size) {
    if (size == 0 || size == 13 || size == 22) {
      CHECK(read_xorb(std::span(body).first(size), "xorb").size() == whole++);
    } else {
      CHECK(fault_of([&] { read_xorb(std::span(body).first(size), "xorb"); }) == Fault::corrupt);
    }
  }
  for (const std::size_t header : {0, 13, 22}) {
    for (std::size_t place = header; place < header + 8; ++place) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        Bytes damaged = body;
        damaged[place] ^= static_cast<std::uint8_t>(1U << bit);
        const bool is_version_or_scheme = place == header || place == header + 4;
        CHECK(fault_of([&] { read_xorb(damaged, "xorb"); }) ==
              (is_version_or_scheme ? Fault::unsupported : Fault::corrupt));
      }
    }
  }
  Bytes with_footer = body;
  for (const char letter : std::string("XETBLOB and more")) with_footer.push_back(static_cast<std::uint8_t>(letter));
  CHECK(read_xorb(with_footer, "xorb").size() == 3);
  CHECK(testing::message_of([&] { read_xorb(std::span(body).first(12), "the xorb"); }) ==
        "the xorb: xorb: chunk 0: cut: 4 of 5 bytes");
}
