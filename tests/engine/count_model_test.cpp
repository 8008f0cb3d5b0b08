// SPDX-License-Identifier: Apache-2.0
#include "engine/count_model.hpp"

#include "codings.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// So many classes, of which some may not be used, but one is.
std::vector<ClassCoding> some_classes(std::mt19937_64& random, bool are_all_used) {
  std::vector<ClassCoding> classes(1 + random() % k_most_classes);
  for (ClassCoding& coding : classes) coding.gap_buckets = are_all_used || random() % 4 != 0 ? 1 : 0;
  classes[random() % classes.size()].gap_buckets = 1;
  return classes;
}

ClassCounts some_counts(std::mt19937_64& random, const std::vector<ClassCoding>& classes) {
  ClassCounts counts{};
  if (random() % 4 == 0) return counts;
  std::uint32_t left = k_most_batch_changes;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].is_used()) left -= counts[k] = often_extreme(random, random() % 2 == 0 ? left : left / 50);
  }
  return counts;
}

std::size_t told_bits(const std::vector<ClassCoding>& classes, const std::vector<ClassCounts>& strips) {
  Bytes bytes;
  BitWriter writer(bytes);
  CountSeries told(classes, nullptr);
  for (ClassCounts counts : strips) told.exchange(Tell(writer), counts);
  writer.finish();
  return 8 * bytes.size();
}

}  // namespace

TEST_CASE("numbers of changes come back, whatever strips have and whatever the group refers to") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 2000; ++round) {
    std::optional<GroupReference> reference;
    if (random() % 2 == 0) reference.emplace();
    const std::vector<ClassCoding> classes = some_classes(random, reference.has_value());
    if (reference)
      std::ranges::generate(reference->changes, [&] { return random() % (std::uint64_t{1} << random() % 40); });
    std::vector<ClassCounts> strips(1 + random() % 20);
    std::ranges::generate(strips, [&] { return some_counts(random, classes); });
    Bytes bytes;
    BitWriter writer(bytes);
    CountSeries told(classes, reference ? &*reference : nullptr);
    for (ClassCounts counts : strips) told.exchange(Tell(writer), counts);
    writer.finish();
    BitReader reader(bytes);
    CountSeries heard(classes, reference ? &*reference : nullptr);
    for (const ClassCounts& counts : strips) {
      ClassCounts again{};
      if (heard.exchange(Hear(reader), again) != is_classed(counts)) FAIL("classed or not");
      if (again != counts) FAIL("other numbers");
    }
    if (!reader.is_at_end()) FAIL("bits are left over");
  }
}

TEST_CASE("where all of a strip changes more or less often, that is told once") {
  const std::vector<ClassCoding> classes = [] {
    std::vector<ClassCoding> all(12);
    for (ClassCoding& coding : all) coding.gap_buckets = 1;
    return all;
  }();
  const auto strip = [&](std::uint32_t times) {
    ClassCounts counts{};
    for (std::uint32_t k = 0; k < classes.size(); ++k) counts[k] = (k + 1) * 10 * times;
    return counts;
  };
  const std::size_t first = told_bits(classes, {strip(1)});
  const std::size_t like_it = told_bits(classes, {strip(1), strip(1)}) - first;
  for (const std::uint32_t times : {2, 4, 8}) {
    CAPTURE(times);
    // For each class half a bit more for each time that numbers double, as they are the more strewn the larger.
    const std::size_t most = like_it + 24 + classes.size() * static_cast<std::size_t>(std::bit_width(times)) / 2;
    CHECK(told_bits(classes, {strip(1), strip(times)}) - first <= most);
  }
}

TEST_CASE("shares of a strip's changes come back, whatever shares others have shown") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint64_t> shown(1 + random() % k_most_classes);
    std::ranges::generate(shown, [&] { return random() % (std::uint64_t{1} << random() % 40); });
    std::vector<std::uint32_t> counts(shown.size());
    std::uint32_t left = k_most_batch_changes;
    for (std::uint32_t& count : counts) left -= count = often_extreme(random, random() % 2 == 0 ? left : left / 50);
    const std::uint32_t total = std::accumulate(counts.begin(), counts.end(), 0U);
    Bytes bytes;
    BitWriter writer(bytes);
    CountShares told(shown, total);
    Tell tell(writer);
    for (std::uint32_t count : counts) told.exchange(tell, count);
    writer.finish();
    BitReader reader(bytes);
    CountShares heard(shown, total);
    Hear hear(reader);
    for (const std::uint32_t count : counts) {
      std::uint32_t again = 0;
      heard.exchange(hear, again);
      if (again != count) FAIL("another number");
    }
    if (heard.left() != 0) FAIL("changes are left over");
    if (!reader.is_at_end()) FAIL("bits are left over");
  }
}

}  // namespace wdelta
