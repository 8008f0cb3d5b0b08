// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_state.hpp"

#include "base/blake3.hpp"
#include "repo/push_state.hpp"
#include "testing/scratch.hpp"

#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>

namespace wdelta {

using namespace testing;

namespace {

FileStamp stamp_number(std::uint64_t i) { return {.size_bytes = i, .mtime_ns = 7, .inode = i + 1, .ctime_ns = 9}; }

// Enough for a long wait where each of these is looked for among those before it.
constexpr std::uint64_t k_files = 60'000;

std::string place_of(std::uint64_t i) { return fmt::format("samples/a \"name\" that is long/{:06}.txt", i); }

}  // namespace

TEST_CASE("what pull and push remember of very many files comes back as it was") {
  const ScratchDirectory scratch;
  PullState pulled{.repository = "repo", .commit = std::nullopt, .files = {}, .expected = {}};
  PushState pushed{.commit = blake3(bytes_of("commit")), .checkpoint = "/checkpoint", .stamps = {}};
  for (std::uint64_t i = 0; i < k_files; ++i) {
    const Digest digest = blake3(bytes_of(place_of(i)));
    pulled.files[place_of(i)] = {digest, stamp_number(i)};
    pulled.expected[place_of(i)] = digest;
    pushed.stamps[place_of(i)] = stamp_number(i);
  }
  std::filesystem::create_directories(pull_folder(scratch.path()));
  save_pull_state(scratch.path(), pulled);
  const PullState pulled_before = load_pull_state(scratch.path());
  CHECK(pulled_before.expected == pulled.expected);
  REQUIRE(pulled_before.files.size() == k_files);
  for (const auto& [place, file] : pulled.files) {
    const PullState::Pulled& before = pulled_before.files.at(place);
    REQUIRE(before.digest == file.digest);
    REQUIRE(before.stamp == file.stamp);
    REQUIRE(before.stamp.ctime_ns == file.stamp.ctime_ns);
  }
  save_push_state(scratch / "push.json", pushed);
  const auto pushed_before = load_push_state(scratch / "push.json");
  REQUIRE(pushed_before.has_value());
  CHECK(pushed_before->commit == pushed.commit);
  CHECK(pushed_before->stamps == pushed.stamps);
}

}  // namespace wdelta
