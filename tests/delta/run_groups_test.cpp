// SPDX-License-Identifier: Apache-2.0
#include "delta/run_groups.hpp"

#include "delta/deltas.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr std::uint64_t k_segment_blocks = 32;  // of elements of two bytes

std::vector<std::uint64_t> groups_of(const Bytes& delta, const std::string& tensor) {
  const auto opened = open_delta(delta);
  std::vector<std::uint64_t> blocks;
  for (const EntryGroup& group : opened->find(tensor)->groups()) blocks.push_back(group.block_count());
  return blocks;
}

}  // namespace

TEST_CASE("a group goes on over the segments of a run until it has changes enough, and never into another tensor") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> tensors;
  tensors.push_back(random_tensor("first", {"BF16", 16}, (5 * k_segment_blocks + 1) * k_block_elements, random));
  tensors.push_back(random_tensor("second", {"BF16", 16}, 2 * k_segment_blocks * k_block_elements, random));
  tensors.push_back(random_tensor("alone", {"F64", 64}, 2 * k_segment_blocks * k_block_elements / 4, random));
  const PlacedFile base{"m.safetensors", safetensors_file(tensors)};
  using Groups = std::vector<std::uint64_t>;
  // Runs are segments 0 to 2, 3 to 5, 6 to 8; the second tensor begins with the second block of segment 5.
  const struct {
    double density;
    Groups first;
    Groups second;
  } k_cases[] = {
      {0.0001, {96, 65}, {31, 33}}, {0.02, {64, 32, 64, 1}, {31, 33}}, {0.05, {32, 32, 32, 32, 32, 1}, {31, 32, 1}}};
  for (const auto& [changed_part, first, second] : k_cases) {
    const double density = changed_part;  // clang 14 captures no bindings
    CAPTURE(density);
    auto changed = with_changes(tensors, density, random);
    changed.push_back(random_tensor("new", {"BF16", 16}, 2 * k_segment_blocks * k_block_elements, random));
    const PlacedFile next{base.path, safetensors_file(changed)};
    const Bytes delta = make_delta({base}, next).bytes;
    CHECK(groups_of(delta, "first") == first);
    CHECK(groups_of(delta, "second") == second);
    // Nothing is shared by blocks that are only coded alone: a reader takes their groups for one.
    CHECK(groups_of(delta, "alone") == Groups{16});
    CHECK(groups_of(delta, "new") == Groups{64});
    for (const unsigned threads : {2U, 5U}) {
      CHECK((make_delta({base}, next, {&best_engine(), threads}).bytes == delta));
      CHECK((apply_delta(delta, {base}, {&best_engine(), threads}) == next.bytes));
    }
  }
}

TEST_CASE("runs end where the file does, and grow no longer towards its end") {
  for (const std::size_t count : {0, 1, 63, 64, 65, 255, 256, 1000}) {
    CAPTURE(count);
    const TaskRuns runs = SegmentRuns().of(count);
    std::size_t longest = 8;
    std::size_t begin = 0;
    while (begin < count) {
      const std::size_t end = runs.end_of_run(begin);
      REQUIRE(end > begin);
      REQUIRE(end - begin <= longest);
      REQUIRE((end - begin == 1 || 16 * (end - begin) <= count - begin));
      longest = end - begin;
      begin = end;
    }
    CHECK(begin == count);
  }
}

}  // namespace wdelta
