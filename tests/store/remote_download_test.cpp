// SPDX-License-Identifier: Apache-2.0
#include "store/http/remote_download.hpp"

#include "base/blake3.hpp"
#include "base/output_file.hpp"
#include "base/space.hpp"
#include "store/http/spool.hpp"
#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

namespace wdelta {

namespace fs = std::filesystem;
using testing::fault_of;
using testing::ScratchDirectory;

namespace {

/// An object in memory, and how often each of its pages was sent.
struct Origin {
  std::vector<std::uint8_t> bytes;
  std::atomic<std::uint64_t> sends_until = UINT64_MAX;
  std::mutex mutex;
  std::map<std::uint64_t, int> sent;

  FoundObject found(const std::string& identity, std::size_t beginning_bytes = 0) {
    FoundObject found;
    found.object = {"object",
                    bytes.size(),
                    identity,
                    {},
                    [this](std::uint64_t offset, std::uint64_t size_bytes, const RemoteObject::Sink& sink) {
                      for (std::uint64_t done = 0; done < size_bytes;) {
                        if (offset + done >= sends_until) throw Error(Fault::network, "object", "is out of reach");
                        const std::uint64_t piece = std::min<std::uint64_t>(size_bytes - done, 70'000);
                        {
                          const std::lock_guard lock(mutex);
                          ++sent[(offset + done) / Spool::k_page_bytes];
                        }
                        sink(std::span(bytes).subspan(offset + done, piece));
                        done += piece;
                      }
                    }};
    found.beginning.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(beginning_bytes));
    return found;
  }
};

struct Arrived {
  std::optional<Digest> digest;
  std::optional<Fault> fault;
  std::uint64_t reported_bytes = 0;
};

Arrived fetch(const FoundObject& found, const fs::path& path, const fs::path& spool) {
  testing::RecordedProgress progress;
  Arrived arrived;
  OutputFile output(path);
  arrived.fault = fault_of([&] { arrived.digest = download(found, output, spool, {3, &progress, {}}); });
  if (!arrived.fault) output.commit(Overwrite::yes, Durability::cached);
  arrived.reported_bytes = progress.advanced_bytes();
  return arrived;
}

}  // namespace

TEST_CASE("a download writes the object's bytes, says their digest, reports each once and leaves nothing else") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, Spool::k_page_bytes, Spool::k_page_bytes + 1,
                                 50 * Spool::k_page_bytes + 4'321}) {
    for (const std::size_t beginning :
         {std::size_t{0}, std::min(size, Spool::k_page_bytes), std::min(size, 2 * Spool::k_page_bytes + 7)}) {
      for (const char* identity : {"", "store key tag"}) {
        CAPTURE(size);
        CAPTURE(beginning);
        Origin origin;
        origin.bytes = testing::random_bytes(random, size);
        const ScratchDirectory scratch;
        const Arrived arrived = fetch(origin.found(identity, beginning), scratch / "out", scratch / "incoming");
        CHECK(arrived.digest == blake3(origin.bytes));
        CHECK(arrived.reported_bytes == size);
        CHECK(testing::get_file(scratch / "out") == testing::text_of(origin.bytes));
        CHECK((!fs::exists(scratch / "incoming") || fs::is_empty(scratch / "incoming")));
      }
    }
  }
}

TEST_CASE("a download that broke off is gone on with, and what was damaged meanwhile is fetched again") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  Origin origin;
  origin.bytes = testing::random_bytes(random, 40 * Spool::k_page_bytes + 99);
  origin.sends_until = 30 * Spool::k_page_bytes;
  const ScratchDirectory scratch;
  REQUIRE(fetch(origin.found("tag"), scratch / "out", scratch / "incoming").fault == Fault::network);
  CHECK_FALSE(fs::exists(scratch / "out"));
  const auto first = origin.sent;
  REQUIRE(first.size() > 16);
  const std::uint64_t damaged = first.begin()->first;
  for (const auto& entry : fs::directory_iterator(scratch / "incoming")) {
    if (entry.path().extension() == ".pages") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(damaged * Spool::k_page_bytes + 17));
    file.put(static_cast<char>(origin.bytes[damaged * Spool::k_page_bytes + 17] ^ 1));
  }
  origin.sends_until = UINT64_MAX;
  origin.sent.clear();
  const Arrived arrived = fetch(origin.found("tag"), scratch / "out", scratch / "incoming");
  CHECK(arrived.digest == blake3(origin.bytes));
  CHECK(arrived.reported_bytes == origin.bytes.size());
  CHECK(testing::get_file(scratch / "out") == testing::text_of(origin.bytes));
  CHECK(origin.sent.contains(damaged));
  CHECK(origin.sent.size() < 41 - first.size() + 4);  // three were cut off in the middle of a page
  CHECK(fs::is_empty(scratch / "incoming"));
}

TEST_CASE("what arrives becomes the output without being written twice, with the mode of any other output") {
  Origin origin;
  origin.bytes.assign(8 * Spool::k_page_bytes, 7);
  const ScratchDirectory scratch;
  OutputFile plain(scratch / "plain");
  plain.commit(Overwrite::yes, Durability::cached);
  testing::RecordedProgress progress;
  OutputFile output(scratch / "out");
  download(origin.found("tag"), output, scratch / "incoming", {2, &progress, {}});
  CHECK(taken_bytes_in(scratch.path()) < 9 * Spool::k_page_bytes);  // one copy, under the output's temporary name
  output.commit(Overwrite::yes, Durability::synced);
  CHECK(fs::status(scratch / "out").permissions() == fs::status(scratch / "plain").permissions());
}

TEST_CASE("where two file systems are in between, what arrived is copied") {
  const fs::path memory = "/dev/shm";
  const fs::path disk = "/var/tmp";
  if (are_on_one_file_system(memory, disk)) return;  // there is but one here
  Origin origin;
  origin.bytes.assign(3 * Spool::k_page_bytes + 5, 9);
  const ScratchDirectory scratch;
  const fs::path elsewhere =
      (are_on_one_file_system(scratch.path(), memory) ? disk : memory) / scratch.path().filename();
  const Arrived arrived = fetch(origin.found("tag"), scratch / "out", elsewhere);
  CHECK(arrived.digest == blake3(origin.bytes));
  CHECK(testing::get_file(scratch / "out") == testing::text_of(origin.bytes));
  CHECK(fs::is_empty(elsewhere));
  fs::remove_all(elsewhere);
}

}  // namespace wdelta
