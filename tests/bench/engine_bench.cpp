// SPDX-License-Identifier: Apache-2.0
// Kernels and block coder on bf16, per engine and density. "memory" walks 64 MiB on each side block by block; "cache"
// stays with 512 KiB, two blocks on each side or a strip of four that is patched: that is how the program meets blocks,
// having just read or hashed them, and leaves the second-level cache room for what else a coder looks at. (Where the
// blocks alone fill that cache, how pages happen to lie in memory is a tenth of what is measured.) Bytes counted are
// those of `next`.
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
constexpr std::size_t k_pairs_in_cache = 2;
constexpr std::size_t k_blocks_in_cache = 4;

/// Elements in a row of the matrix that they are. Each column has a way, which three of four changes go.
constexpr std::size_t k_columns = 4096;

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
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto distance = static_cast<unsigned>(size_ / spacing(elements[i]) + one(random));
      const bool is_up_column = i % k_columns * 0x9e3779b97f4a7c15 >> 63 == 0;
      const bool is_up = is_up_column == (random() % 4 != 0);
      elements[i] = static_cast<std::uint16_t>(is_up ? elements[i] + distance : elements[i] - distance);
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
constexpr std::size_t k_group_elements = k_blocks_in_group * k_block_elements;
constexpr std::size_t k_run_elements = 8 * k_group_elements;

// Groups as diff makes them, in runs of 32 MiB, of blocks that come around again: what depends on where changes lie is
// foretold better than of real weights, and whatever saves such branches is to be judged by diff of those; choosing
// classes and making tables included, and of a matrix, of which each run begins one, choosing which signs to flip.
void encode_groups(benchmark::State& state, const Engine& engine, std::uint64_t row_elements) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  GroupEncoder encoder(engine);
  CodedGroup coded;
  std::size_t block = 0;
  double changes = 0;
  double bits = 0;
  MatrixPlace place{row_elements, 0};
  for (auto _ : state) {
    if (place.first_element == 0) encoder.begin_run();
    encoder.begin(k_bf16, place, ExpectedElements::exactly(k_group_elements));
    place.first_element = (place.first_element + k_group_elements) % k_run_elements;
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

void encode(benchmark::State& state, const Engine& engine) { encode_groups(state, engine, 0); }
void encode_matrix(benchmark::State& state, const Engine& engine) { encode_groups(state, engine, k_columns); }

/// A delta of some blocks.
struct Delta {
  Delta(const Engine& engine, std::span<const std::uint8_t> base, std::span<const std::uint8_t> next) {
    const std::size_t count = base.size() / k_block_bytes;
    GroupEncoder encoder(engine, BlockChoice::classed);
    encoder.begin(k_bf16, {}, ExpectedElements::exactly(count * k_block_elements));
    for (std::size_t i = 0; i < count; ++i) {
      encoder.add(base.subspan(i * k_block_bytes, k_block_bytes), next.subspan(i * k_block_bytes, k_block_bytes));
    }
    encoder.finish(group);
    const GroupShape shape{k_bf16, count, count * k_block_elements, {}, group.blocks_in_strip};
    strips = shape.strips();
    tables.emplace(group.parameters, shape);
    std::size_t at = 0;
    for (const std::size_t size : group.batch_bytes) {
      const std::uint64_t first = batches.size() * group.strips_in_batch;
      const IndexRange of_batch{first, std::min(first + group.strips_in_batch, strips.count())};
      batches.push_back({&*tables, of_batch, std::span(group.bytes).subspan(at, size), nullptr});
      at += size;
    }
  }
  std::size_t batch_of(std::size_t block) const { return strips.of(block) / group.strips_in_batch; }
  void add_to(BlockChain& chain, const BlockChain::Place& place, std::size_t block, const DecodedBatch& batch) const {
    chain.add(place, *tables, block, batch.changes_of(strips.of(block)));
  }

  CodedGroup group;
  Strips strips;
  std::optional<GroupTables> tables;
  std::vector<CodedBatch> batches;
};

/// The batches of some deltas, one delta after the other and then from the first on again, some decoded at once.
class Batches {
 public:
  Batches(const Engine& engine, std::span<Delta* const> deltas) : engine_(&engine) {
    for (Delta* const delta : deltas) {
      for (CodedBatch& batch : delta->batches) all_.push_back(&batch);
    }
  }
  /// The next, or the one after the last one.
  const DecodedBatch& next() {
    if (at_ == lot_.size()) decode();
    return *lot_[at_++].decoded;
  }

 private:
  void decode() {
    lot_.clear();
    at_ = 0;
    std::swap(decoded_, before_);  // the last one may be in use still
    while (lot_.size() < decoded_.size()) {
      lot_.push_back(*all_[begin_]);
      lot_.back().decoded = &decoded_[lot_.size() - 1];
      begin_ = (begin_ + 1) % all_.size();
    }
    decoder_.decode(*engine_, lot_);
  }

  const Engine* engine_;
  ClassedDecoder decoder_;
  std::vector<CodedBatch*> all_;
  std::size_t begin_ = 0;  // of those that are left
  std::array<DecodedBatch, ClassedDecoder::k_at_once> decoded_;
  std::array<DecodedBatch, ClassedDecoder::k_at_once> before_;
  std::vector<CodedBatch> lot_;
  std::size_t at_ = 0;
};

// There and back again: a block can only be decoded over its base. Batches are decoded some at once, as a program does
// that has more blocks to come; few blocks go to another version and back, so that there are as many batches.
void decode(benchmark::State& state, const Engine& engine) {
  const Pair& pair = pair_of(state.range(0));
  const auto blocks = static_cast<std::size_t>(state.range(1));
  const auto part = [&](const Bytes& bytes, std::size_t first) {
    return std::span(bytes).subspan(first * k_block_bytes, blocks * k_block_bytes);
  };
  const std::size_t other = blocks < k_blocks_in_memory ? blocks : 0;
  Delta there(engine, part(pair.base, 0), part(pair.next, 0));
  Delta back(engine, part(pair.next, 0), part(pair.base, 0));
  Delta elsewhere(engine, part(pair.base, 0), part(pair.next, other));
  Delta from_elsewhere(engine, part(pair.next, other), part(pair.base, 0));
  Delta* const way[] = {&there, &back, &elsewhere, &from_elsewhere};
  Batches batches(engine, way);
  Bytes elements = pair.base;
  BlockChain chain(engine);
  const std::size_t at_a_time = std::min<std::size_t>(blocks, k_most_blocks_in_strip);
  std::size_t block = 0;
  std::size_t at = 0;
  const DecodedBatch* batch = nullptr;
  std::size_t batch_number = 0;
  for (auto _ : state) {
    chain.begin(k_bf16);
    for (std::size_t i = 0; i < at_a_time; ++i) {
      const Delta& delta = *way[at];
      if (block + i == 0 || delta.batch_of(block + i) != batch_number) {
        batch_number = delta.batch_of(block + i);
        batch = &batches.next();
      }
      delta.add_to(chain, {i, 0}, block + i, *batch);
    }
    for (std::size_t i = 0; i < at_a_time; ++i)
      chain.apply(i, std::span(elements).subspan((block + i) * k_block_bytes, k_block_bytes));
    benchmark::ClobberMemory();
    if ((block += at_a_time) == blocks) {
      block = 0;
      at = (at + 1) % std::size(way);
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
  std::vector<DecodedBatch> decoded(deltas.size());
  std::vector<CodedBatch> batches;  // two blocks are a strip
  for (std::size_t number = 0; number < deltas.size(); ++number) {
    batches.push_back(deltas[number]->batches.front());
    batches.back().decoded = &decoded[number];
  }
  BlockChain chain(engine);
  ClassedDecoder decoder;
  for (auto _ : state) {
    chain.begin(k_bf16);
    decoder.decode(engine, batches);
    for (std::size_t number = 0; number < deltas.size(); ++number) {
      for (std::size_t i = 0; i < k_blocks_in_piece; ++i)
        deltas[number]->add_to(chain, {i, number}, i, decoded[number]);
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
    encoder.begin(k_bf16, {}, ExpectedElements::exactly(k_blocks_in_group * k_block_elements));
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
      const auto add = [&](const char* what, std::int64_t in_cache, void (*measure)(benchmark::State&, const Engine&)) {
        const auto name = [&](const char* where) {
          return std::string(what) + "/" + std::string(engine.name) + "/" + where + "/changed_per_10000";
        };
        benchmark::RegisterBenchmark(name("cache").c_str(), measure, engine)->Args({density, in_cache});
        benchmark::RegisterBenchmark(name("memory").c_str(), measure, engine)->Args({density, k_blocks_in_memory});
      };
      add("find_changes", k_pairs_in_cache, find_changes);
      add("encode", k_pairs_in_cache, encode);
      add("encode_matrix", k_pairs_in_cache, encode_matrix);
      add("decode", k_blocks_in_cache, decode);
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
