// SPDX-License-Identifier: Apache-2.0
// Kernels and block coder on bf16, per engine and density. "memory" walks 64 MiB on each side block by block; "cache"
// stays with four blocks on each side, 1 MiB in all, which the second-level cache holds: that is how the program meets
// blocks, having just read or hashed them. Bytes counted are those of `next`.
#include "engine/block.hpp"
#include "engine/block_chain.hpp"
#include "engine/group.hpp"

#include <algorithm>
#include <array>
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

/// An optimizer step of one size for all: what is large against a number's distance to its neighbours moves it, what
/// is small does so now and then.
class OptimizerStep {
 public:
  /// One that changes this share of these elements.
  OptimizerStep(const std::vector<std::uint16_t>& elements, double density) {
    double low = 0;
    double high = 1;
    for (int round = 0; round < 60; ++round) {
      size_ = (low + high) / 2;
      double changed = 0;
      for (const std::uint16_t element : elements) changed += std::min(1.0, size_ / spacing(element));
      (changed < density * static_cast<double>(elements.size()) ? low : high) = size_;
    }
  }
  void operator()(std::span<std::uint16_t> elements, std::mt19937_64& random) const {
    std::uniform_real_distribution<double> one(0, 1);
    for (std::uint16_t& element : elements) {
      const auto distance = static_cast<unsigned>(size_ / spacing(element) + one(random));
      element = static_cast<std::uint16_t>(random() % 2 == 0 ? element + distance : element - distance);
    }
  }

 private:
  /// From a number to its neighbour.
  static double spacing(std::uint16_t element) { return std::ldexp(1.0, ((element >> 7) & 0xff) - 127 - 7); }

  double size_ = 0;
};

/// Weights as a normal distribution has them.
std::vector<std::uint16_t> weights_of_block(std::mt19937_64& random) {
  std::normal_distribution<float> weights(0, 0.02F);
  std::vector<std::uint16_t> block(k_block_elements);
  for (std::uint16_t& element : block) {
    const float weight = weights(random);
    std::memcpy(&element, reinterpret_cast<const char*>(&weight) + 2, 2);
  }
  return block;
}

/// Weights, and what one step makes of them.
struct Pair {
  explicit Pair(double density) : base(k_blocks_in_memory * k_block_bytes), next(base.size()) {
    std::mt19937_64 random(1);
    // One block's worth of weights many times over: drawing all of them would take longer than measuring.
    const std::vector<std::uint16_t> block = weights_of_block(random);
    const OptimizerStep step(block, density);
    for (std::size_t at = 0; at < base.size(); at += k_block_bytes) {
      std::memcpy(base.data() + at, block.data(), k_block_bytes);
      std::vector<std::uint16_t> moved = block;
      step(moved, random);
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
    for (const BlockSummary& of_group : coded.blocks) changes += of_group.changes;
    bits += 8 * static_cast<double>(coded.bytes.size() + coded.parameters.size());
  }
  count_bytes(state, k_blocks_in_group);
  state.counters["bits_per_change"] = bits / changes;
}

/// A delta of some blocks, taken apart batch by batch as its blocks come.
struct Delta {
  Delta(const Engine& engine, std::span<const std::uint8_t> base, std::span<const std::uint8_t> next) {
    const std::size_t count = base.size() / k_block_bytes;
    GroupEncoder encoder(engine, BlockChoice::classed);
    encoder.begin(k_bf16, {}, count * k_block_elements);
    for (std::size_t i = 0; i < count; ++i) {
      encoder.add(base.subspan(i * k_block_bytes, k_block_bytes), next.subspan(i * k_block_bytes, k_block_bytes));
    }
    encoder.finish(group);
    const GroupShape shape{k_bf16, count, count * k_block_elements, {}, group.blocks_in_strip};
    strips = shape.strips();
    tables.emplace(group.parameters, shape);
    std::size_t at = 0;
    for (const std::size_t size : group.batch_bytes) {
      batches.push_back(std::span(group.bytes).subspan(at, size));
      at += size;
    }
  }
  /// Blocks come in turns.
  void add_to(BlockChain& chain, const BlockChain::Place& place, std::size_t block, const Engine& engine,
              ClassedDecoder& decoder) {
    const std::uint64_t strip = strips.of(block);
    const std::size_t batch = strip / group.strips_in_batch;
    if (strip % group.strips_in_batch == 0 && strips.blocks_of(strip).first == block) {
      const std::uint64_t end = std::min<std::uint64_t>(strip + group.strips_in_batch, strips.count());
      decoder.decode(engine, *tables, {strip, end}, batches[batch], decoded[batch % decoded.size()]);
    }
    chain.add(place, *tables, block, decoded[batch % decoded.size()].changes_of(strip));
  }

  CodedGroup group;
  Strips strips;
  std::optional<GroupTables> tables;
  std::vector<std::span<const std::uint8_t>> batches;
  std::array<DecodedBatch, k_most_blocks_in_strip> decoded;  // of blocks that are taken through together
};

// There and back again: a block can only be decoded over its base.
void decode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  const auto part = [&](const Bytes& bytes) { return std::span(bytes).first(blocks * k_block_bytes); };
  Delta there(engine, part(pair.base), part(pair.next));
  Delta back(engine, part(pair.next), part(pair.base));
  Bytes elements = pair.base;
  BlockChain chain(engine);
  ClassedDecoder decoder;
  const std::size_t at_a_time = std::min<std::size_t>(blocks, k_most_blocks_in_strip);
  std::size_t block = 0;
  Delta* way = &there;
  for (auto _ : state) {
    chain.begin(k_bf16);
    for (std::size_t i = 0; i < at_a_time; ++i) way->add_to(chain, {i, 0}, block + i, engine, decoder);
    for (std::size_t i = 0; i < at_a_time; ++i)
      chain.apply(i, std::span(elements).subspan((block + i) * k_block_bytes, k_block_bytes));
    benchmark::ClobberMemory();
    if ((block += at_a_time) == blocks) {
      block = 0;
      way = way == &there ? &back : &there;
    }
  }
  count_bytes(state, at_a_time);
}

// Five deltas and five back again, with tables of their own each, over the blocks of a piece of a file at a time. Bytes
// are counted once for each delta.
void decode_chain(benchmark::State& state, const Engine& engine) {
  constexpr std::size_t k_blocks_in_piece = 2;
  constexpr std::size_t k_deltas_there = 5;
  std::mt19937_64 random(1);
  const std::vector<std::uint16_t> block = weights_of_block(random);
  const OptimizerStep step(block, static_cast<double>(state.range(0)) / 10000);
  std::vector<Bytes> versions(1);
  for (std::size_t i = 0; i < k_blocks_in_piece; ++i) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(block.data());
    versions.front().insert(versions.front().end(), bytes, bytes + k_block_bytes);
  }
  for (std::size_t i = 0; i < k_deltas_there; ++i) {
    std::vector<std::uint16_t> moved(k_blocks_in_piece * k_block_elements);
    std::memcpy(moved.data(), versions.back().data(), versions.back().size());
    step(moved, random);
    Bytes& next = versions.emplace_back(versions.back().size());
    std::memcpy(next.data(), moved.data(), next.size());
  }
  std::vector<std::unique_ptr<Delta>> deltas;
  for (std::size_t i = 0; i < k_deltas_there; ++i)
    deltas.push_back(std::make_unique<Delta>(engine, versions[i], versions[i + 1]));
  for (std::size_t i = k_deltas_there; i > 0; --i)
    deltas.push_back(std::make_unique<Delta>(engine, versions[i], versions[i - 1]));
  Bytes elements = versions.front();
  BlockChain chain(engine);
  ClassedDecoder decoder;
  for (auto _ : state) {
    chain.begin(k_bf16);
    for (std::size_t number = 0; number < deltas.size(); ++number) {
      for (std::size_t i = 0; i < k_blocks_in_piece; ++i)
        deltas[number]->add_to(chain, {i, number}, i, engine, decoder);
    }
    for (std::size_t i = 0; i < k_blocks_in_piece; ++i)
      chain.apply(i, std::span(elements).subspan(i * k_block_bytes, k_block_bytes));
    benchmark::ClobberMemory();
  }
  if (elements != versions.front()) state.SkipWithError("the chain does not lead back");
  count_bytes(state, k_blocks_in_piece * deltas.size());
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
      benchmark::RegisterBenchmark(("decode_chain/" + std::string(engine.name) + "/cache/changed_per_10000").c_str(),
                                   decode_chain, engine)
          ->Arg(density);
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
