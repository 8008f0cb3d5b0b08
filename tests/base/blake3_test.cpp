// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"

#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace wdelta;

namespace {

std::vector<std::uint8_t> counting_bytes(std::size_t size_bytes) {
  std::vector<std::uint8_t> bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::uint8_t>(i % 251);
  return bytes;
}

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// The values of `name` in the file of vectors, in order. It is the project's own file, with a member on each line; the
/// engine's tests are built where no library reads JSON.
std::vector<std::string> members(const std::string& text, const std::string& name) {
  std::vector<std::string> values;
  const std::string label = '"' + name + "\": ";
  for (std::size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1)) {
    std::size_t begin = at + label.size();
    const bool is_string = text.at(begin) == '"';
    if (is_string) ++begin;
    values.push_back(text.substr(begin, text.find_first_of(is_string ? "\"" : ",\n", begin) - begin));
  }
  return values;
}

Digest digest_with(const Blake3Kernel& kernel, std::span<const std::uint8_t> bytes) {
  Blake3 hasher(kernel);
  hasher.update(bytes);
  return hasher.finish();
}

const Blake3Kernel& portable() { return *blake3_kernels().back(); }

}  // namespace

TEST_CASE("every BLAKE3 kernel gives the official digests, keyed digests and extended outputs") {
  std::ifstream file(WDELTA_TESTDATA "/blake3/test_vectors.json");
  REQUIRE(file);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string key_text = members(text, "key").at(0);
  Blake3Key key;
  REQUIRE(key_text.size() == key.size());
  std::copy(key_text.begin(), key_text.end(), key.begin());
  const auto sizes = members(text, "input_len");
  const auto hashes = members(text, "hash");
  const auto keyed_hashes = members(text, "keyed_hash");
  REQUIRE(sizes.size() == 35);
  REQUIRE(hashes.size() == 35);
  REQUIRE(keyed_hashes.size() == 35);

  for (const Blake3Kernel* kernel : blake3_kernels()) {
    CAPTURE(std::string(blake3_kernel_name(*kernel)));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t size_bytes = std::stoull(sizes[i]);
      CAPTURE(size_bytes);
      const auto bytes = counting_bytes(size_bytes);
      const auto check = [&](Blake3 hasher, const std::string& output_hex) {
        hasher.update(bytes);
        std::vector<std::uint8_t> output(output_hex.size() / 2);
        hasher.finish(output);
        CHECK(hex(output) == output_hex);
        CHECK(hasher.finish().hex() == output_hex.substr(0, 64));
        // Any shorter output is its beginning.
        for (std::size_t size = 0; size < output.size(); size += 7) {
          std::vector<std::uint8_t> shorter(size);
          hasher.finish(shorter);
          CHECK(std::equal(shorter.begin(), shorter.end(), output.begin()));
        }
      };
      check(Blake3(*kernel), hashes[i]);
      check(Blake3::keyed(key, *kernel), keyed_hashes[i]);
    }
  }
}

TEST_CASE("the last BLAKE3 kernel is the portable one, and the one-shot digest is that of the first") {
  REQUIRE_FALSE(blake3_kernels().empty());
  CHECK(std::string(blake3_kernel_name(portable())) == "scalar");
  const auto bytes = counting_bytes(100'000);
  CHECK(blake3(bytes) == digest_with(portable(), bytes));
}

TEST_CASE("every BLAKE3 kernel agrees with the portable one for every short length") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 34 * 1024);
  std::vector<std::size_t> sizes(4400);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = i;
  // Longer ones: every count of chunks that leaves lanes idle in a kernel, one byte less and more.
  for (std::size_t chunks = 4; chunks < 34; ++chunks) {
    for (const std::size_t size : {chunks * 1024 - 1, chunks * 1024, chunks * 1024 + 1}) sizes.push_back(size);
  }
  for (const std::size_t size : sizes) {
    const auto input = std::span(bytes).first(size);
    const Digest expected = digest_with(portable(), input);
    for (const Blake3Kernel* kernel : blake3_kernels()) {
      CAPTURE(size);
      REQUIRE(digest_with(*kernel, input) == expected);
    }
  }
}

TEST_CASE("every BLAKE3 kernel agrees with the portable one for random lengths up to 20 MiB and any alignment") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, std::size_t{20} << 20);
  for (int trial = 0; trial < 12; ++trial) {
    const std::size_t offset = random() % 129;
    const std::size_t size = random() % ((bytes.size() - offset) >> random() % 8);
    CAPTURE(offset);
    CAPTURE(size);
    const auto input = std::span(bytes).subspan(offset, size);
    const Digest expected = digest_with(portable(), input);
    for (const Blake3Kernel* kernel : blake3_kernels()) CHECK(digest_with(*kernel, input) == expected);
  }
}

TEST_CASE("any split of a BLAKE3 stream into updates gives the same digest") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, std::size_t{6} << 20);
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    for (const std::size_t longest : {1, 70, 1100, 17'000, 70'000, 3'000'000}) {
      const std::size_t size = std::min(bytes.size(), 2000 * longest);
      CAPTURE(longest);
      Blake3 hasher(*kernel);
      for (std::size_t at = 0; at < size;) {
        const std::size_t piece = std::min<std::size_t>(size - at, random() % (longest + 1));
        hasher.update(std::span(bytes).subspan(at, piece));
        at += piece;
      }
      CHECK(hasher.finish() == digest_with(*kernel, std::span(bytes).first(size)));
    }
  }
}

TEST_CASE("a BLAKE3 stream can be copied and finished midway, and goes on") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 300'000);
  for (const std::size_t cut : {0, 1, 1024, 16'384, 16'385, 65'536, 200'001}) {
    CAPTURE(cut);
    Blake3 hasher;
    hasher.update(std::span(bytes).first(cut));
    CHECK(hasher.finish() == blake3(std::span(bytes).first(cut)));
    Blake3 twin(hasher);
    Blake3 assigned;
    assigned.update(std::span(bytes).first(77));
    assigned = hasher;
    hasher.update(std::span(bytes).first(5));
    for (Blake3* copy : {&twin, &assigned}) {
      copy->update(std::span(bytes).subspan(cut));
      CHECK(copy->finish() == blake3(bytes));
    }
  }
}
