// SPDX-License-Identifier: Apache-2.0
// Kernels and block coder on bf16, per engine and density. "memory" walks 64 MiB on each side block by block; "cache"
// stays with four blocks on each side, 1 MiB in all, which the second-level cache holds: that is how the program meets
// blocks, having just read or hashed them. Bytes counted are those of `next`.
#include "engine/block.hpp"
#include "engine/group.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace wdelta;
using Bytes = std::vector<std::uint8_t>;

constexpr ElementType k_bf16 = {2, ElementKind::floating};
constexpr std::size_t k_block_bytes = std::size_t{2} * k_block_elements;
constexpr std::size_t k_blocks_in_memory = 512;
constexpr std::size_t k_blocks_in_cache = 4;

/// Weights as a normal distribution has them, and an optimizer step of one size for all: what is large against a
/// number's distance to its neighbours moves it, what is small does so now and then.
struct Pair {
  explicit Pair(double density) : base(k_blocks_in_memory * k_block_bytes), next(base.size()) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> weights(0, 0.02F);
    // One block's worth of weights many times over: drawing all of them would take longer than measuring.
    std::vector<std::uint16_t> block(k_block_elements);
    for (std::uint16_t& element : block) {
      const float weight = weights(random);
      std::memcpy(&element, reinterpret_cast<const char*>(&weight) + 2, 2);
    }
    const double size = step_size(block, density);
    std::uniform_real_distribution<double> one(0, 1);
    for (std::size_t at = 0; at < base.size(); at += k_block_bytes) {
      std::memcpy(base.data() + at, block.data(), k_block_bytes);
      std::vector<std::uint16_t> moved = block;
      for (std::uint16_t& element : moved) {
        const double distance = size / spacing(element);
        const auto step = static_cast<unsigned>(distance + one(random));
        element = static_cast<std::uint16_t>(random() % 2 == 0 ? element + step : element - step);
      }
      std::memcpy(next.data() + at, moved.data(), k_block_bytes);
    }
  }

  Bytes base;
  Bytes next;

 private:
  /// From a number to its neighbour.
  static double spacing(std::uint16_t element) { return std::ldexp(1.0, ((element >> 7) & 0xff) - 127 - 7); }
  /// The step that changes this share of the elements.
  static double step_size(const std::vector<std::uint16_t>& block, double density) {
    double low = 0;
    double high = 1;
    for (int round = 0; round < 60; ++round) {
      const double size = (low + high) / 2;
      double changed = 0;
      for (const std::uint16_t element : block) changed += std::min(1.0, size / spacing(element));
      (changed < density * k_block_elements ? low : high) = size;
    }
    return low;
  }
};

/// Made once per density; kept only while benchmarks of that density run, which is how they are ordered.
const Pair& pair_of(std::int64_t per_10000) {
  static std::int64_t made_for = -1;
  static std::unique_ptr<Pair> pair;
  if (made_for != per_10000) {
    pair.reset();
    pair = std::make_unique<Pair>(static_cast<double>(per_10000) / 10000);
    made_for = per_10000;
  }
  return *pair;
}

void count_bytes(benchmark::State& state, std::size_t blocks = 1) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(blocks * k_block_bytes));
}

std::span<const std::uint8_t> block_of(const Bytes& bytes, std::size_t block) {
  return std::span(bytes).subspan(block * k_block_bytes, k_block_bytes);
}

void find_changes(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  std::vector<std::uint16_t> positions(k_block_elements + 64);
  std::vector<std::uint16_t> steps(k_block_elements + 64);
  std::size_t block = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(engine.block(k_bf16).find_changes(block_of(pair.base, block).data(),
                                                               block_of(pair.next, block).data(), k_block_elements,
                                                               positions.data(), steps.data()));
    block = (block + 1) % blocks;
  }
  count_bytes(state);
}

constexpr std::size_t k_blocks_in_group = 32;

// Groups as diff makes them, of blocks that come around again; choosing classes and making tables included.
void encode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  GroupEncoder encoder(engine);
  CodedGroup coded;
  std::size_t block = 0;
  double changes = 0;
  double bits = 0;
  for (auto _ : state) {
    encoder.begin(k_bf16, {}, k_blocks_in_group * k_block_elements);
    for (std::size_t i = 0; i < k_blocks_in_group; ++i) {
      encoder.add(block_of(pair.base, block), block_of(pair.next, block));
      block = (block + 1) % blocks;
    }
    encoder.finish(coded);
    for (const CodedGroup::Block& of_group : coded.blocks) changes += of_group.summary.changes;
    bits += 8 * static_cast<double>(coded.bytes.size() + coded.parameters.size());
  }
  count_bytes(state, k_blocks_in_group);
  state.counters["bits_per_change"] = bits / changes;
}

// There and back again: a block can only be decoded over its base.
void decode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  struct Way {
    CodedGroup group;
    std::optional<GroupTables> tables;
    std::vector<std::span<const std::uint8_t>> blocks;
  };
  Way there;
  Way back;
  GroupEncoder encoder(engine, BlockChoice::classed);
  const auto code = [&](const Bytes& base, const Bytes& next, Way& way) {
    encoder.begin(k_bf16, {}, blocks * k_block_elements);
    for (std::size_t i = 0; i < blocks; ++i) encoder.add(block_of(base, i), block_of(next, i));
    encoder.finish(way.group);
    way.tables.emplace(way.group.parameters, GroupShape{k_bf16, blocks, blocks * k_block_elements, {}});
    std::size_t at = 0;
    for (const CodedGroup::Block& block : way.group.blocks) {
      way.blocks.push_back(std::span(way.group.bytes).subspan(at, block.size_bytes));
      at += block.size_bytes;
    }
  };
  code(pair.base, pair.next, there);
  code(pair.next, pair.base, back);
  Bytes elements = pair.base;
  BlockDecoder decoder(engine);
  std::size_t block = 0;
  const Way* way = &there;
  for (auto _ : state) {
    decoder.apply(way->blocks[block], k_bf16, std::span(elements).subspan(block * k_block_bytes, k_block_bytes),
                  &*way->tables, block);
    benchmark::ClobberMemory();
    if (++block == blocks) {
      block = 0;
      way = way == &there ? &back : &there;
    }
  }
  count_bytes(state);
}

// Weights that start afresh.
void encode_afresh(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(100);
  const Bytes zeros(k_block_bytes);
  GroupEncoder encoder(engine);
  CodedGroup coded;
  double bytes = 0;
  for (auto _ : state) {
    encoder.begin(k_bf16, {}, k_blocks_in_group * k_block_elements);
    for (std::size_t i = 0; i < k_blocks_in_group; ++i) encoder.add(zeros, block_of(pair.next, i % k_blocks_in_cache));
    encoder.finish(coded);
    bytes += static_cast<double>(coded.bytes.size());
  }
  count_bytes(state, k_blocks_in_group);
  state.counters["times_smaller"] =
      static_cast<double>(state.iterations()) * static_cast<double>(k_blocks_in_group * k_block_bytes) / bytes;
}

void decode_afresh(benchmark::State& state, const Engine& engine) {
  Bytes elements(k_block_bytes);
  Bytes coded;
  BlockEncoder(engine).encode(elements, block_of(pair_of(100).next, 0), k_bf16, coded);
  BlockDecoder decoder(engine);
  for (auto _ : state) {
    decoder.apply(coded, k_bf16, elements);
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::int64_t density : {10, 100, 280, 1200}) {  // in 1/10,000
    for (const Engine& engine : engines()) {
      if (!engine.usable()) continue;
      const auto add = [&](const char* what, void (*measure)(benchmark::State&, const Engine&)) {
        const auto name = [&](const char* where) {
          return std::string(what) + "/" + std::string(engine.name) + "/" + where + "/changed_per_10000";
        };
        benchmark::RegisterBenchmark(name("cache").c_str(), measure, engine)->Args({density, k_blocks_in_cache});
        benchmark::RegisterBenchmark(name("memory").c_str(), measure, engine)->Args({density, k_blocks_in_memory});
      };
      add("find_changes", find_changes);
      add("encode", encode);
      add("decode", decode);
    }
  }
  for (const Engine& engine : engines()) {
    if (!engine.usable()) continue;
    benchmark::RegisterBenchmark(("encode_afresh/" + std::string(engine.name)).c_str(), encode_afresh, engine);
    benchmark::RegisterBenchmark(("decode_afresh/" + std::string(engine.name)).c_str(), decode_afresh, engine);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
