// SPDX-License-Identifier: Apache-2.0
// Kernels and block coder on bf16, per engine and density. "memory" walks 64 MiB on each side block by block; "cache"
// stays with four blocks on each side, 1 MiB in all, which the second-level cache holds: that is how the program meets
// blocks, having just read or hashed them. Bytes counted are those of `next`.
#include "engine/block.hpp"

#include <benchmark/benchmark.h>
#include <cstring>
#include <memory>
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

/// Weights as a normal distribution has them, and an optimizer step: most changes to a neighbouring number.
struct Pair {
  explicit Pair(double density) : base(k_blocks_in_memory * k_block_bytes), next(base.size()) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> weights(0, 0.02F);
    std::bernoulli_distribution changes(density);
    std::geometric_distribution<unsigned> further(0.85);
    // One block's worth of weights many times over: drawing all of them would take longer than measuring.
    std::vector<std::uint16_t> block(k_block_elements);
    for (std::uint16_t& element : block) {
      const float weight = weights(random);
      std::memcpy(&element, reinterpret_cast<const char*>(&weight) + 2, 2);
    }
    for (std::size_t at = 0; at < base.size(); at += k_block_bytes) {
      std::memcpy(base.data() + at, block.data(), k_block_bytes);
      std::vector<std::uint16_t> moved = block;
      for (std::uint16_t& element : moved) {
        if (!changes(random)) continue;
        const unsigned step = 1 + further(random);
        element = static_cast<std::uint16_t>(random() % 2 == 0 ? element + step : element - step);
      }
      std::memcpy(next.data() + at, moved.data(), k_block_bytes);
    }
  }

  Bytes base;
  Bytes next;
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

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(k_block_bytes));
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

void encode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  BlockEncoder encoder(engine);
  Bytes coded;
  std::size_t block = 0;
  double changes = 0;
  double bits = 0;
  for (auto _ : state) {
    coded.clear();
    changes += encoder.encode(block_of(pair.base, block), block_of(pair.next, block), k_bf16, coded).changes;
    bits += 8 * static_cast<double>(coded.size());
    block = (block + 1) % blocks;
  }
  count_bytes(state);
  state.counters["bits_per_change"] = bits / changes;
}

// Blocks are applied to whatever the round before left: the work does not depend on the elements.
void decode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  std::vector<Bytes> coded(blocks);
  BlockEncoder encoder(engine);
  for (std::size_t block = 0; block < blocks; ++block) {
    encoder.encode(block_of(pair.base, block), block_of(pair.next, block), k_bf16, coded[block]);
  }
  Bytes elements = pair.base;
  BlockDecoder decoder(engine);
  std::size_t block = 0;
  for (auto _ : state) {
    decoder.apply(coded[block], k_bf16, std::span(elements).subspan(block * k_block_bytes, k_block_bytes));
    benchmark::ClobberMemory();
    block = (block + 1) % blocks;
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
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
