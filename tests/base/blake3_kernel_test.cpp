// SPDX-License-Identifier: Apache-2.0
#include "base/blake3_kernel.hpp"

#include "base/blake3.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <random>
#include <span>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace wdelta;

namespace {

/// Memory that ends at a page which cannot be read.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t size_bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    readable_ = (size_bytes + page - 1) / page * page;
    mapped_ = readable_ + page;
    void* start = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start != MAP_FAILED);
    start_ = static_cast<std::uint8_t*>(start);
    REQUIRE(mprotect(start_ + readable_, page, PROT_NONE) == 0);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(start_, mapped_); }

  std::span<std::uint8_t> last(std::size_t size_bytes) const { return {start_ + readable_ - size_bytes, size_bytes}; }

 private:
  std::uint8_t* start_;
  std::size_t readable_, mapped_;
};

std::vector<std::uint32_t> random_words(std::mt19937_64& random, std::size_t count) {
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

}  // namespace

TEST_CASE("no BLAKE3 kernel reads beyond its input, which may end at an unreadable page") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const std::size_t longest = 70 * 1024;
  const GuardedBuffer buffer(longest);
  const auto bytes = testing::random_bytes(random, longest);
  std::copy(bytes.begin(), bytes.end(), buffer.last(longest).begin());
  std::vector<std::size_t> sizes(4201);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = i;
  for (std::size_t chunks = 5; chunks <= 70; ++chunks) sizes.push_back(chunks * 1024);
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    for (const std::size_t size : sizes) {
      Blake3 guarded(*kernel), plain(*kernel);
      guarded.update(buffer.last(size));
      plain.update(std::span(bytes).last(size));
      CAPTURE(size);
      REQUIRE(guarded.finish() == plain.finish());
    }
    // The hasher gathers short inputs in a buffer of its own; here the kernel gets them as they lie.
    for (std::size_t chunks = 1; chunks <= 70; ++chunks) {
      std::vector<std::uint32_t> values(8 * chunks), expected(8 * chunks);
      kernel->hash_chunks(buffer.last(1024 * chunks).data(), chunks, k_blake3_iv, 0, 0, values.data());
      k_blake3_scalar.hash_chunks(bytes.data() + longest - 1024 * chunks, chunks, k_blake3_iv, 0, 0, expected.data());
      REQUIRE(values == expected);
    }
  }
}

TEST_CASE("every BLAKE3 kernel counts chunks in 64 bits, takes any count, and writes only its own values") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto bytes = testing::random_bytes(random, 100 * 1024 + 64);
  const auto key = random_words(random, 8);
  const std::uint64_t past_32_bits = (std::uint64_t{1} << 32) - 20;
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    CAPTURE(std::string(kernel->name));
    for (std::size_t count = 0; count <= 100; ++count) {
      for (const std::uint64_t first : {std::uint64_t{0}, past_32_bits, random() >> 12}) {
        CAPTURE(count);
        CAPTURE(first);
        const std::uint8_t* input = bytes.data() + random() % 64;
        std::vector<std::uint32_t> values(8 * (count + 1), 0x5a5a5a5a), expected = values;
        kernel->hash_chunks(input, count, key.data(), first, k_blake3_keyed, values.data());
        k_blake3_scalar.hash_chunks(input, count, key.data(), first, k_blake3_keyed, expected.data());
        REQUIRE(values == expected);
      }
    }
  }
}

TEST_CASE("a BLAKE3 kernel that copies reads its input and nothing more, and copies and hashes all of it") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const std::size_t longest = 3 * k_blake3_copied_chunks * 1024;
  const GuardedBuffer input_memory(longest), copy_memory(longest);
  const auto bytes = testing::random_bytes(random, longest);
  const auto key = random_words(random, 8);
  const std::uint64_t first = (std::uint64_t{1} << 32) - 20;
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    if (kernel->copy_and_hash_chunks == nullptr) continue;
    CAPTURE(std::string(kernel->name));
    for (std::size_t count = 0; count * 1024 <= longest; count += k_blake3_copied_chunks) {
      CAPTURE(count);
      const auto input = input_memory.last(1024 * count), copy = copy_memory.last(1024 * count);
      std::copy_n(bytes.begin(), input.size(), input.begin());
      std::fill_n(copy_memory.last(longest).begin(), longest, std::uint8_t{0xaa});
      std::vector<std::uint32_t> values(8 * (count + 1), 0x5a5a5a5a), expected = values;
      kernel->copy_and_hash_chunks(input.data(), count, key.data(), first, k_blake3_keyed, copy.data(), values.data());
      k_blake3_scalar.hash_chunks(bytes.data(), count, key.data(), first, k_blake3_keyed, expected.data());
      REQUIRE(values == expected);
      REQUIRE(std::equal(copy.begin(), copy.end(), bytes.begin()));
      const auto before = copy_memory.last(longest).first(longest - copy.size());
      REQUIRE(std::all_of(before.begin(), before.end(), [](std::uint8_t byte) { return byte == 0xaa; }));
    }
    for (std::size_t shift = 0; shift < 64; ++shift) {
      std::vector<std::uint8_t> copy(longest / 3 + 64);
      std::vector<std::uint32_t> values(8 * k_blake3_copied_chunks), expected = values;
      const std::uint8_t* const input = bytes.data() + shift;
      std::uint8_t* const to = copy.data() + random() % 64;
      kernel->copy_and_hash_chunks(input, k_blake3_copied_chunks, key.data(), 0, 0, to, values.data());
      k_blake3_scalar.hash_chunks(input, k_blake3_copied_chunks, key.data(), 0, 0, expected.data());
      REQUIRE(values == expected);
      REQUIRE(std::equal(to, to + longest / 3, input));
    }
  }
}

TEST_CASE("a BLAKE3 kernel that copies hashes what it has copied, while somebody writes to its input") {
  constexpr std::size_t k_chunks = 2 * k_blake3_copied_chunks;
  constexpr std::size_t k_size = k_chunks * 1024;
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    if (kernel->copy_and_hash_chunks == nullptr) continue;
    CAPTURE(std::string(kernel->name));
    std::vector<std::uint8_t> input(k_size), copy(k_size);
    std::atomic<bool> done = false;
    // Another process does this to a file that is mapped; ThreadSanitizer need not see it.
    std::thread writer([&] {
      while (!done) {
        for (std::size_t at = 0; at < k_size; at += 16) __asm__ volatile("incb %0" : "+m"(input[at]));
      }
    });
    std::size_t moved = 0;
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::uint32_t> values(8 * k_chunks), expected = values;
      kernel->copy_and_hash_chunks(input.data(), k_chunks, k_blake3_iv, 0, 0, copy.data(), values.data());
      kernel->hash_chunks(copy.data(), k_chunks, k_blake3_iv, 0, 0, expected.data());
      if (values != expected) ++moved;
    }
    done = true;
    writer.join();
    CHECK(moved == 0);
  }
}

TEST_CASE("every BLAKE3 kernel hashes any count of parents, in place too") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto key = random_words(random, 8);
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    CAPTURE(std::string(kernel->name));
    for (std::size_t count = 0; count <= 100; ++count) {
      CAPTURE(count);
      const auto children = random_words(random, 16 * count + 8);
      std::vector<std::uint32_t> values(8 * (count + 1), 0x5a5a5a5a), expected = values;
      k_blake3_scalar.hash_parents(children.data(), count, key.data(), k_blake3_keyed, expected.data());
      kernel->hash_parents(children.data(), count, key.data(), k_blake3_keyed, values.data());
      REQUIRE(values == expected);
      auto in_place = children;
      kernel->hash_parents(in_place.data(), count, key.data(), k_blake3_keyed, in_place.data());
      REQUIRE(std::equal(in_place.begin(), in_place.begin() + 8 * count, expected.begin()));
    }
  }
}

TEST_CASE("one compression gives a chunk's value as the BLAKE3 kernels do") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  const auto words = random_words(random, 16);
  std::vector<std::uint32_t> value(16), expected(8);
  k_blake3_scalar.hash_parents(words.data(), 1, k_blake3_iv, 0, expected.data());
  blake3_compress(k_blake3_iv, words.data(), 0, k_blake3_block_bytes, k_blake3_parent, value.data());
  CHECK(std::equal(expected.begin(), expected.end(), value.begin()));
}
