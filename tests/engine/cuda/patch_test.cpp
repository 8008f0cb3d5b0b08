// SPDX-License-Identifier: Apache-2.0
#include "elements.hpp"
#include "engine/class_map.hpp"
#include "engine/cuda/laws.hpp"
#include "engine/engine.hpp"
#include "testing/apply_strip.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

enum class Ranks { all_there, one_beyond };

void set_bounds(DevicePatch& patch, const Bytes& bounds) {
  std::ranges::copy(bounds, patch.bounds);
  patch.bound_count = static_cast<std::uint8_t>(bounds.size());
}

/// Blocks to be patched in one launch, and what scalar makes of them.
class PatchBatch {
 public:
  PatchBatch(ElementType type, Bytes bounds) : type_(type), bounds_(std::move(bounds)) {}

  /// Of the blocks to come.
  void use_bounds(Bytes bounds) { bounds_ = std::move(bounds); }

  void add(Bytes elements, double density, std::size_t skew, Ranks kind, std::mt19937_64& random) {
    const auto count = static_cast<std::uint32_t>(elements.size() / type_.width_bytes);
    Block block = {};
    block.patch.count = count;
    block.patch.first_change = static_cast<std::uint32_t>(ranks_.size());
    block.patch.first_flip = static_cast<std::uint32_t>(flips_.size());
    set_bounds(block.patch, bounds_);
    // Of each class some members, by a look at the elements as scalar classes them.
    const Bytes classes = classes_of(elements, count);
    std::bernoulli_distribution changes(density);
    for (std::uint32_t k = 0; k <= bounds_.size(); ++k) {
      std::uint32_t members = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (classes[i] != k) continue;
        if (changes(random)) add_change(block, k, members, random);
        ++members;
      }
      if (kind == Ranks::one_beyond && k == bounds_.size()) add_change(block, k, members, random);
    }
    for (std::uint32_t i = 0; i < (count + 63) / 64; ++i) flips_.push_back(random());
    block.at = (elements_.size() + 15) / 16 * 16 + skew;
    elements_.resize(block.at);
    elements_.insert(elements_.end(), elements.begin(), elements.end());
    blocks_.push_back(block);
  }

  enum class Flips { none, some, all };

  void check(Device& device, Flips flips_of) {
    const auto stream = device.make_stream();
    const OnDevice<std::uint8_t> elements(device, *stream, elements_);
    const OnDevice<std::uint32_t> ranks(device, *stream, ranks_);
    const OnDevice<std::uint8_t> moves(device, *stream, moves_);
    const OnDevice<std::uint64_t> flips(device, *stream, flips_);
    std::vector<DevicePatch> described;
    for (const Block& block : blocks_) {
      described.push_back(block.patch);
      described.back().elements = elements.begin() + block.at;
      if (!has_flips(flips_of, described.size())) described.back().first_flip = k_no_flips;
    }
    const OnDevice<DevicePatch> patches(device, *stream, described);
    const OnDevice<std::uint32_t> statuses(device, *stream, std::vector<std::uint32_t>(described.size(), 77));
    stream->patch(type_, patches.begin(), patches.size(), ranks.begin(), moves.begin(), flips.begin(),
                  statuses.begin());
    const std::vector<std::uint32_t> found = statuses.get(*stream);
    Bytes result = elements.get(*stream);

    Bytes expected = elements_;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const DevicePatch& patch = blocks_[i].patch;
      const ClassedChanges changes = {patch.bounds,
                                      patch.bound_count,
                                      patch.class_changes,
                                      ranks_.data() + patch.first_change,
                                      moves_.data() + patch.first_change * type_.width_bytes,
                                      has_flips(flips_of, i + 1) ? flips_.data() + patch.first_flip : nullptr,
                                      nullptr,
                                      0};
      const bool is_done =
          apply_strip(engine_named("scalar"), type_, expected.data() + blocks_[i].at, patch.count, changes);
      CAPTURE(int{type_.width_bytes});
      CAPTURE(int(type_.kind));
      CAPTURE(patch.count);
      CAPTURE(blocks_[i].at % 16);
      REQUIRE(found[i] == (is_done ? 0 : 1));
      const auto at = static_cast<std::ptrdiff_t>(blocks_[i].at);
      const auto end = at + static_cast<std::ptrdiff_t>(patch.count * type_.width_bytes);
      // What a refused block holds is unspecified.
      if (!is_done) std::copy(result.begin() + at, result.begin() + end, expected.begin() + at);
      REQUIRE(std::equal(result.begin() + at, result.begin() + end, expected.begin() + at));
    }
    REQUIRE(result == expected);
  }

 private:
  static bool has_flips(Flips flips, std::size_t number) {
    return flips == Flips::all || (flips == Flips::some && number % 2 == 0);
  }

  struct Block {
    DevicePatch patch;
    std::size_t at;
  };

  Bytes classes_of(const Bytes& elements, std::uint32_t count) const {
    Bytes classes(count);
    for (std::uint32_t first = 0; first < count; first += k_block_elements) {
      const std::uint32_t here = std::min(count - first, k_block_elements);
      std::vector<std::uint16_t> positions(here);
      std::iota(positions.begin(), positions.end(), std::uint16_t{0});
      std::vector<std::uint16_t> ranks(here);
      std::array<std::uint32_t, k_most_classes> members;
      engine_named("scalar").block(type_).rank_changes(elements.data() + std::size_t{first} * type_.width_bytes, here,
                                                       bounds_.data(), static_cast<std::uint32_t>(bounds_.size()),
                                                       positions.data(), here, ranks.data(), classes.data() + first,
                                                       members.data());
    }
    return classes;
  }
  void add_change(Block& block, std::uint32_t of_class, std::uint32_t rank, std::mt19937_64& random) {
    ++block.patch.class_changes[of_class];
    ranks_.push_back(rank);
    const Bytes move = random_bytes(random, type_.width_bytes);
    moves_.insert(moves_.end(), move.begin(), move.end());
  }

  ElementType type_;
  Bytes bounds_;
  std::vector<Block> blocks_;
  Bytes elements_;
  std::vector<std::uint32_t> ranks_;
  Bytes moves_;
  std::vector<std::uint64_t> flips_;
};

const Bytes k_bounds = {40, 100, 120, 121, 122, 123, 124, 125, 126, 127, 130, 180, 220, 250, 255};

}  // namespace

DEVICE_LAW(
    "patches are scalar's for every length to 200 and alignment, with flips and without, with other bounds beside") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    for (const auto flips : {PatchBatch::Flips::none, PatchBatch::Flips::some, PatchBatch::Flips::all}) {
      PatchBatch batch(type, {100, 125, 200});
      for (std::size_t count = 0; count <= 200; ++count) {
        if (count % 50 == 49) batch.use_bounds(count % 100 == 49 ? Bytes{} : k_bounds);
        batch.add(random_bytes(random, count * type.width_bytes), count % 3 == 0 ? 1.0 : 0.1, count % 16,
                  Ranks::all_there, random);
      }
      batch.check(device, flips);
    }
  }
}

DEVICE_LAW("patches are scalar's at the edges of runs and in whole blocks, at any density") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    for (const Bytes& bounds : {Bytes{}, k_bounds}) {
      PatchBatch batch(type, bounds);
      std::size_t skew = 0;
      for (const std::size_t count : {255, 256, 257, 1025, 65535, 65536}) {
        for (const double density : {0.0, 0.001, 0.1, 1.0}) {
          batch.add(random_bytes(random, count * type.width_bytes), density, 5 * skew++ % 16, Ranks::all_there, random);
        }
      }
      batch.check(device, PatchBatch::Flips::all);
    }
  }
}

DEVICE_LAW("patches of strips are scalar's, block after block") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    for (const Bytes& bounds : {Bytes{}, k_bounds}) {
      PatchBatch batch(type, bounds);
      for (const std::size_t count : {65537, 2 * 65536, 8 * 65536 - 100}) {
        for (const double density : {0.0, 0.0001, 0.05}) {
          for (const Ranks kind : {Ranks::all_there, Ranks::one_beyond})
            batch.add(random_bytes(random, count * type.width_bytes), density, random() % 16, kind, random);
        }
      }
      batch.check(device, PatchBatch::Flips::all);
    }
  }
}

DEVICE_LAW("all 65,536 bf16 patterns are moved as scalar moves them") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Bytes elements;
  for (std::uint32_t i = 0; i < k_block_elements; ++i) {
    elements.push_back(static_cast<std::uint8_t>(i));
    elements.push_back(static_cast<std::uint8_t>(i >> 8));
  }
  PatchBatch batch(k_bf16, k_bounds);
  batch.add(elements, 1.0, 0, Ranks::all_there, random);
  batch.add(elements, 0.5, 0, Ranks::all_there, random);
  batch.check(device, PatchBatch::Flips::all);
}

DEVICE_LAW("a block whose class has too few elements is refused, and others are not") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_classed_types) {
    PatchBatch batch(type, {90, 125});
    for (const std::size_t count : {0, 1, 100, 256, 65000}) {
      for (const Ranks kind : {Ranks::one_beyond, Ranks::all_there}) {
        batch.add(random_bytes(random, count * type.width_bytes), 0.1, 1, kind, random);
      }
    }
    batch.check(device, PatchBatch::Flips::none);
  }
}

DEVICE_LAW("ranks that make no sense write nothing outside") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const auto stream = device.make_stream();
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = 1 + random() % 3000 + round % 2 * 65536;
    Bytes around = random_bytes(random, 2 * count + 512);
    const OnDevice<std::uint8_t> elements(device, *stream, around);
    std::vector<std::uint32_t> nonsense(600);
    for (std::uint32_t& rank : nonsense) rank = static_cast<std::uint32_t>(random() % (2 * count));
    const OnDevice<std::uint32_t> ranks(device, *stream, nonsense);
    const OnDevice<std::uint32_t> moves(device, *stream, nonsense);
    DevicePatch patch = {};
    patch.elements = elements.begin() + 256;
    patch.count = static_cast<std::uint32_t>(count);
    for (std::uint32_t& of_class : patch.class_changes) of_class = 100;
    // So many that their sum runs over, and is small again.
    if (round % 5 == 0) patch.class_changes[0] = patch.class_changes[1] = std::uint32_t{1} << 31;
    patch.first_flip = k_no_flips;
    set_bounds(patch, {60, 120, 125, 190, 250});
    const OnDevice<DevicePatch> patches(device, *stream, std::span(&patch, 1));
    const OnDevice<std::uint32_t> statuses(device, 1);
    stream->patch(k_bf16, patches.begin(), 1, ranks.begin(), moves.begin(), nullptr, statuses.begin());
    const Bytes result = elements.get(*stream);
    CHECK(std::equal(result.begin(), result.begin() + 256, around.begin()));
    CHECK(std::equal(result.end() - 256, result.end(), around.end() - 256));
  }
}

}  // namespace wdelta
