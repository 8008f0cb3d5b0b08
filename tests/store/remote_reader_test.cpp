// SPDX-License-Identifier: Apache-2.0
#include "store/http/remote_reader.hpp"

#include "store/http/spool.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace wdelta {

using testing::fault_of;
using testing::ScratchDirectory;

namespace {

/// An object in memory that counts how often each page was fetched.
struct ReadOrigin {
  std::vector<std::uint8_t> bytes;
  std::mutex mutex;
  std::map<std::uint64_t, int> fetched;
  std::atomic<std::uint64_t> fails_from = UINT64_MAX;

  RemoteObject object(const std::string& identity = "") {
    return {"object",
            bytes.size(),
            identity,
            {},
            [this](std::uint64_t offset, std::uint64_t size_bytes, const RemoteObject::Sink& sink) {
              {
                const std::lock_guard lock(mutex);
                for (std::uint64_t page = offset / Spool::k_page_bytes;
                     page * Spool::k_page_bytes < offset + size_bytes; ++page) {
                  ++fetched[page];
                }
              }
              for (std::uint64_t done = 0; done < size_bytes;) {
                if (offset + done >= fails_from) throw Error(Fault::network, "object", "is out of reach");
                const std::uint64_t piece = std::min<std::uint64_t>(size_bytes - done, 100'000);
                sink(std::span(bytes).subspan(offset + done, piece));
                done += piece;
              }
            }};
  }
};

std::vector<std::uint8_t> read(const ByteReader& reader, std::uint64_t offset, std::uint64_t size_bytes) {
  std::vector<std::uint8_t> bytes(size_bytes);
  reader.read_at(offset, bytes);
  return bytes;
}

bool is_part(const std::vector<std::uint8_t>& part, const ReadOrigin& origin, std::uint64_t offset) {
  return std::ranges::equal(part, std::span(origin.bytes).subspan(offset, part.size()));
}

}  // namespace

TEST_CASE("a remote object reads as its bytes, at any offset, from many threads, each page fetched once") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (const std::size_t size :
       {std::size_t{1}, Spool::k_page_bytes, Spool::k_page_bytes + 1, 20 * Spool::k_page_bytes + 12'345}) {
    CAPTURE(size);
    ReadOrigin origin{testing::random_bytes(random, size), {}, {}, UINT64_MAX};
    const ScratchDirectory scratch;
    {
      const auto ahead = std::make_shared<ReadAhead>(4);
      const RemoteReader reader(origin.object(), std::span(origin.bytes).first(size / 2), scratch.path(), ahead);
      CHECK(reader.size_bytes() == size);
      std::atomic<bool> wrong = false;
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, seed = random()] {
          std::mt19937_64 own(seed);
          for (int i = 0; i < 50; ++i) {
            const std::uint64_t offset = own() % size;
            const std::uint64_t count = own() % std::min<std::uint64_t>(size - offset, 3 * Spool::k_page_bytes) + 1;
            if (!is_part(read(reader, offset, std::min(count, size - offset)), origin, offset)) wrong = true;
          }
        });
      }
      threads.clear();
      CHECK_FALSE(wrong);
      CHECK(is_part(read(reader, 0, size), origin, 0));
      CHECK(fault_of([&] { read(reader, size, 1); }) == Fault::corrupt);
    }
    for (const auto& [page, count] : origin.fetched) CHECK(count == 1);
    for (std::uint64_t page = 0; (page + 1) * Spool::k_page_bytes <= size / 2; ++page)
      CHECK_FALSE(origin.fetched.contains(page));
    CHECK(std::filesystem::is_empty(scratch.path()));
  }
}

TEST_CASE("a header costs one page; reads that follow each other are met by what was fetched ahead") {
  ReadOrigin origin{std::vector<std::uint8_t>(64 * Spool::k_page_bytes, 7), {}, {}, UINT64_MAX};
  const ScratchDirectory scratch;
  const auto ahead = std::make_shared<ReadAhead>(4);
  {
    const RemoteReader reader(origin.object(), {}, scratch.path(), ahead);
    read(reader, 0, 8);
    read(reader, 8, 1000);
  }
  CHECK(origin.fetched.size() == 1);
  const RemoteReader reader(origin.object(), {}, scratch.path(), ahead);
  for (std::uint64_t page = 0; page < 16; page += 4) read(reader, page * Spool::k_page_bytes, 4 * Spool::k_page_bytes);
  read(reader, 40 * Spool::k_page_bytes, Spool::k_page_bytes);  // is coming or here: nobody asked for it
  const std::lock_guard lock(origin.mutex);
  CHECK(origin.fetched.size() > 17);
}

TEST_CASE("a read fails with its reason, and succeeds when that is gone") {
  ReadOrigin origin{std::vector<std::uint8_t>(10 * Spool::k_page_bytes, 7), {}, {}, 3 * Spool::k_page_bytes};
  const ScratchDirectory scratch;
  const RemoteReader reader(origin.object(), {}, scratch.path(), std::make_shared<ReadAhead>(2));
  CHECK(is_part(read(reader, 0, 3 * Spool::k_page_bytes), origin, 0));
  CHECK(fault_of([&] { read(reader, 2 * Spool::k_page_bytes, 3 * Spool::k_page_bytes); }) == Fault::network);
  origin.fails_from = UINT64_MAX;
  CHECK(is_part(read(reader, 2 * Spool::k_page_bytes, 8 * Spool::k_page_bytes), origin, 2 * Spool::k_page_bytes));
}

TEST_CASE("what had arrived when a program failed is not fetched again, unless it was damaged meanwhile") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  ReadOrigin origin{testing::random_bytes(random, 8 * Spool::k_page_bytes), {}, {}, 5 * Spool::k_page_bytes};
  const ScratchDirectory scratch;
  const auto read_all_of = [&](const std::string& identity) {
    const RemoteReader reader(origin.object(identity), {}, scratch.path(), std::make_shared<ReadAhead>(1));
    for (std::uint64_t page = 0; page < 8; ++page) {
      const auto bytes = read(reader, page * Spool::k_page_bytes, Spool::k_page_bytes);
      CHECK(is_part(bytes, origin, page * Spool::k_page_bytes));
    }
  };
  REQUIRE(fault_of([&] { read_all_of("store key tag"); }) == Fault::network);
  REQUIRE_FALSE(std::filesystem::is_empty(scratch.path()));
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    if (entry.path().extension() == ".pages") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(Spool::k_page_bytes + 17));
    file.put(static_cast<char>(origin.bytes[Spool::k_page_bytes + 17] ^ 1));
  }
  origin.fails_from = UINT64_MAX;
  origin.fetched.clear();
  read_all_of("another tag");
  CHECK(origin.fetched.size() == 8);
  origin.fetched.clear();
  read_all_of("store key tag");
  CHECK_FALSE(origin.fetched.contains(0));
  CHECK(origin.fetched.contains(1));
  CHECK_FALSE(origin.fetched.contains(2));
  CHECK(std::filesystem::is_empty(scratch.path()));
}

TEST_CASE("pages left by programs that never came back are removed when they are old, and only then") {
  ReadOrigin origin{std::vector<std::uint8_t>(2 * Spool::k_page_bytes, 7), {}, {}, Spool::k_page_bytes};
  const ScratchDirectory scratch;
  const auto fail = [&](const std::string& identity) {
    fault_of([&] {
      const RemoteReader reader(origin.object(identity), {}, scratch.path(), std::make_shared<ReadAhead>(1));
      read(reader, 0, 2 * Spool::k_page_bytes);
    });
  };
  fail("a");
  Spool::remove_older(scratch.path(), 3600);
  CHECK_FALSE(std::filesystem::is_empty(scratch.path()));
  Spool::remove_older(scratch.path(), -1);
  CHECK(std::filesystem::is_empty(scratch.path()));

  // Whoever comes next removes them.
  fail("a");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 8);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    std::filesystem::last_write_time(entry.path(), long_ago);
  }
  const Spool next(scratch.path(), "b", Spool::k_page_bytes);
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path()), {}) == 2);
}

TEST_CASE("an object that is not read takes no memory in proportion to the size that its store tells") {
  ReadOrigin origin{std::vector<std::uint8_t>(10, 7), {}, {}, UINT64_MAX};
  const ScratchDirectory scratch;
  RemoteObject object = origin.object("store key tag");
  object.size_bytes = UINT64_MAX;
  const RemoteReader reader(object, origin.bytes, scratch.path(), std::make_shared<ReadAhead>(1));
  CHECK(reader.size_bytes() == UINT64_MAX);
  CHECK(std::filesystem::is_empty(scratch.path()));
}

}  // namespace wdelta
