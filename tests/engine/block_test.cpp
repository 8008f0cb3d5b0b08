// SPDX-License-Identifier: Apache-2.0
#include "engine/block.hpp"

#include "elements.hpp"
#include "frames.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <optional>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

constexpr BlockChoice k_block_choices[] = {BlockChoice::automatic, BlockChoice::sparse, BlockChoice::dense,
                                           BlockChoice::whole,     BlockChoice::afresh, BlockChoice::unknown_bytes};

/// One encoder and one decoder per engine that runs here, for one choice of mode.
class Coders {
 public:
  explicit Coders(BlockChoice choice) : choice_(choice) {
    for (const Engine& engine : engines()) {
      if (!engine.usable()) continue;
      encoders_.emplace_back(engine, choice);
      decoders_.emplace_back(engine);
    }
  }

  /// Encodes with every engine, decodes with every engine. Returns what is wrong, or null.
  const char* wrong_with(const Bytes& base, const Bytes& next, ElementType type) {
    std::optional<Bytes> agreed;
    for (BlockEncoder& encoder : encoders_) {
      coded = {0xaa, 0xbb};  // encode appends
      summary = encoder.encode(base, next, type, coded);
      if (coded.size() < 2 || coded[0] != 0xaa || coded[1] != 0xbb) return "what was there before is gone";
      coded.erase(coded.begin(), coded.begin() + 2);
      if (agreed && *agreed != coded) return "two engines differ";
      agreed = coded;
      if (!summary_is_true(base, next, type)) return "summary";
    }
    for (BlockDecoder& decoder : decoders_) {
      Bytes elements = base;
      decoder.apply(coded, type, elements);
      if (elements != next) return "does not come back";
    }
    return nullptr;
  }

  Bytes coded;
  BlockSummary summary;

 private:
  bool summary_is_true(const Bytes& base, const Bytes& next, ElementType type) const {
    std::uint32_t changes = 0;
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < next.size() / type.width_bytes; ++i) {
      const std::uint64_t step =
          step_by_the_page(get(base.data(), i, type.width_bytes), get(next.data(), i, type.width_bytes), type);
      changes += step != 0;
      largest = std::max(largest, step / 2 + step % 2);
    }
    if (summary.changes != changes || summary.largest_step != largest) return false;
    if (changes == 0) return coded.empty() && summary.mode == BlockMode::same;
    if ((coded[0] & 0x0f) != static_cast<std::uint8_t>(summary.mode)) return false;
    switch (choice_) {
      case BlockChoice::sparse:
        return summary.mode == BlockMode::sparse;
      case BlockChoice::dense:
        return summary.mode == BlockMode::dense;
      case BlockChoice::whole:
        return summary.mode == BlockMode::whole;
      case BlockChoice::afresh:
        return summary.mode == BlockMode::afresh;
      default:
        return coded.size() <= 1 + next.size();
    }
  }

  BlockChoice choice_;
  std::vector<BlockEncoder> encoders_;
  std::vector<BlockDecoder> decoders_;
};

void check_all(const std::vector<std::size_t>& counts, const std::vector<double>& densities) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : k_block_choices) {
    Coders coders(choice);
    for (const ElementType type : k_element_types) {
      for (const std::size_t count : counts) {
        for (const double density : densities) {
          const Bytes base = random_bytes(random, count * type.width_bytes);
          const Bytes next = changed(base, type, density, random);
          const char* const wrong = coders.wrong_with(base, next, type);
          if (wrong == nullptr) continue;
          CAPTURE(int(choice));
          CAPTURE(int{type.width_bytes});
          CAPTURE(int(type.kind));
          CAPTURE(count);
          CAPTURE(density);
          FAIL(wrong);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("decoding undoes encoding for short blocks, the same bytes from every engine") {
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count <= 200; ++count) counts.push_back(count);
  check_all(counts, {0.0, 0.01, 0.1, 0.5, 1.0});
}

TEST_CASE("decoding undoes encoding for full blocks, the same bytes from every engine") {
  check_all({65535, 65536}, {0.0, 1.0 / 65536, 0.001, 0.01, 0.1, 0.5, 1.0});
}

TEST_CASE("gaps around the escape and up to the whole block come back") {
  Coders coders(BlockChoice::sparse);
  for (const ElementType type : k_element_types) {
    for (const std::size_t gap : {0, 1, 253, 254, 255, 256, 257, 510, 511, 65534, 65535}) {
      const Bytes base(65536UL * type.width_bytes);
      for (const bool again : {false, true}) {
        Bytes next = base;
        for (std::size_t i = gap; i < 65536; i += gap + 1) {
          put(next.data(), i, type.width_bytes, 1);
          if (!again) break;
        }
        CAPTURE(gap);
        CAPTURE(again);
        CHECK(coders.wrong_with(base, next, type) == nullptr);
      }
    }
  }
}

TEST_CASE("steps around the escape and up to the largest come back") {
  for (const BlockChoice choice : k_block_choices) {
    Coders coders(choice);
    for (const ElementType type : k_element_types) {
      const std::uint64_t most = all_bits(type);
      for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{254}, std::uint64_t{255},
                                       std::uint64_t{256}, std::uint64_t{257}, std::uint64_t{512}, most - 1, most}) {
        if (step > most) continue;
        for (const std::uint64_t from : {std::uint64_t{0}, most, highest_bit(type), most / 3}) {
          Bytes base(100UL * type.width_bytes);
          for (std::size_t i = 0; i < 100; ++i) put(base.data(), i, type.width_bytes, from);
          Bytes next = base;
          for (std::size_t i = 7; i < 100; i += 9) {
            put(next.data(), i, type.width_bytes, element_by_the_page(from, step, type));
          }
          CAPTURE(int{type.width_bytes});
          CAPTURE(step);
          CHECK(coders.wrong_with(base, next, type) == nullptr);
          CHECK(coders.summary.largest_step == step / 2 + step % 2);
        }
      }
    }
  }
}

TEST_CASE("automatic takes the mode that fits the changes" * testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Coders coders(BlockChoice::automatic);
  const Bytes base = random_bytes(random, 2 * 65536);

  REQUIRE(coders.wrong_with(base, base, k_bf16) == nullptr);
  CHECK(coders.summary.mode == BlockMode::same);
  REQUIRE(coders.wrong_with(base, changed(base, k_bf16, 0.02, random), k_bf16) == nullptr);
  CHECK(coders.summary.mode == BlockMode::sparse);
  CHECK((coders.coded[0] & 0x10) == 0);
  REQUIRE(coders.wrong_with(base, changed(base, k_bf16, 1.0, random), k_bf16) == nullptr);
  CHECK(coders.summary.mode == BlockMode::dense);
  REQUIRE(coders.wrong_with(base, random_bytes(random, base.size()), k_bf16) == nullptr);
  CHECK(coders.summary.mode == BlockMode::whole);
  CHECK(coders.coded.size() == 1 + base.size());
}

TEST_CASE(
    "bytes of unknown kind are never larger than whole or than automatic has them, and repeats are found in them" *
    testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Coders automatic(BlockChoice::automatic);
  Coders unknown(BlockChoice::unknown_bytes);
  const Bytes word = random_bytes(random, 1024);
  for (const ElementType type : k_element_types) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{4096}, std::size_t{65536}}) {
      const std::size_t size = count * type.width_bytes;
      Bytes text;
      while (text.size() < size) text.insert(text.end(), word.begin(), word.end());
      text.resize(size);
      const Bytes noise = random_bytes(random, size);
      const Bytes none(size);
      for (const auto& [base, next] : {std::pair(none, noise),
                                       {none, text},
                                       {noise, text},
                                       {text, noise},
                                       {noise, none},
                                       {noise, changed(noise, type, 0.02, random)}}) {
        CAPTURE(int{type.width_bytes});
        CAPTURE(count);
        REQUIRE(automatic.wrong_with(base, next, type) == nullptr);
        REQUIRE(unknown.wrong_with(base, next, type) == nullptr);
        CHECK(unknown.coded.size() <= 1 + next.size());
        CHECK(unknown.coded.size() <= automatic.coded.size());
        // Steps from noise are noise, and a byte of the word is as likely as any other: only the repeats give it away.
        if (next == text && count >= 4096 && base == noise) CHECK(unknown.coded.size() < size / 2 + 100);
      }
    }
  }
}

TEST_CASE("comparing tells what encoding would, and writes nothing") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    const Bytes base = random_bytes(random, 3000UL * type.width_bytes);
    const Bytes next = changed(base, type, 0.1, random);
    BlockEncoder encoder(best_engine());
    Bytes coded;
    const BlockSummary looked = encoder.compare(base, next, type);
    const BlockSummary summary = encoder.encode(base, next, type, coded);
    CHECK(looked.changes == summary.changes);
    CHECK(looked.largest_step == summary.largest_step);
    CHECK(looked.mode == BlockMode::same);
  }
}

}  // namespace wdelta
