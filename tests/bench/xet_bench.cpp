// SPDX-License-Identifier: Apache-2.0
#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/xet/gear.hpp"
#include "store/xet/xet_upload.hpp"

#include <benchmark/benchmark.h>
#include <random>
#include <vector>

// One thread; bytes per second are bytes of the file, which comes from memory.

namespace {

using namespace wdelta;

constexpr std::size_t k_size_bytes = std::size_t{256} << 20;

const MemoryReader& file() {
  static const MemoryReader reader = [] {
    std::vector<std::uint8_t> bytes(k_size_bytes);
    std::mt19937 random(1);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return MemoryReader(std::move(bytes), "random");
  }();
  return reader;
}

class Nowhere final : public XetSink {
 public:
  void xorb(Xorb&& xorb) override { benchmark::DoNotOptimize(xorb.hash); }
  void shard(std::vector<std::uint8_t>&& body) override { benchmark::DoNotOptimize(body.data()); }
};

void set_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * k_size_bytes));
}

/// Where a file may be cut.
void scan(benchmark::State& state) {
  const std::vector<std::uint8_t> bytes = read_all(file());
  GearMarks marks;
  for (auto _ : state) {
    marks.reset(bytes.size());
    marks.scan(bytes.data(), k_gear_window_bytes, bytes.size());
    benchmark::DoNotOptimize(marks.next(k_gear_window_bytes, bytes.size()));
  }
  set_bytes(state);
}

/// Chunks of the average size, which lie in memory.
void hash(benchmark::State& state) {
  const std::vector<std::uint8_t> bytes = read_all(file());
  for (auto _ : state) {
    constexpr std::size_t k_chunk_bytes = 64 << 10;
    for (std::size_t at = 0; at < bytes.size(); at += k_chunk_bytes) {
      benchmark::DoNotOptimize(xet_chunk_hash(std::span(bytes).subspan(at, k_chunk_bytes)));
    }
  }
  set_bytes(state);
}

/// Reading, cutting, hashing: the file's hash.
void chunk_and_hash(benchmark::State& state) {
  NoProgress progress;
  const Execution execution{1, &progress, {}};
  for (auto _ : state) benchmark::DoNotOptimize(xet_file_hash(file(), execution));
  set_bytes(state);
}

/// All of it, xorbs and shard made as well.
void upload(benchmark::State& state) {
  NoProgress progress;
  const Execution execution{1, &progress, {}};
  Nowhere nowhere;
  for (auto _ : state) {
    XetUpload made(nowhere, execution);
    made.add(file());
    made.finish();
  }
  set_bytes(state);
}

BENCHMARK(scan)->Name("xet/scan");
BENCHMARK(hash)->Name("xet/hash");
BENCHMARK(chunk_and_hash)->Name("xet/chunk_and_hash");
BENCHMARK(upload)->Name("xet/upload");

}  // namespace

BENCHMARK_MAIN();
