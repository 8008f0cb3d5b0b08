// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/buffer.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <random>
#include <span>
#include <string>

// One thread, one kernel each; bytes per second are bytes hashed. 256 KiB stays in cache, 256 MiB comes from
// memory.

namespace {

using namespace wdelta;

// Page-aligned, as the windows are that files are read into: across cache lines, 64-byte loads take twice as long.
std::span<const std::uint8_t> input_of(std::size_t size_bytes, Buffer& buffer) {
  const auto bytes = buffer.of_size(size_bytes);
  std::mt19937 random(1);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

void bench_update(benchmark::State& state, const Blake3Kernel* kernel) {
  Buffer buffer;
  const auto bytes = input_of(static_cast<std::size_t>(state.range(0)), buffer);
  for (auto _ : state) {
    Blake3 hasher(*kernel);
    hasher.update(bytes);
    benchmark::DoNotOptimize(hasher.finish());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

void bench_tree(benchmark::State& state, const Blake3Kernel* kernel) {
  Buffer buffer;
  const auto bytes = input_of(static_cast<std::size_t>(state.range(0)), buffer);
  for (auto _ : state) {
    Blake3Tree tree(bytes.size(), *kernel);
    for (std::size_t index = 0; index < tree.segment_count(); ++index) {
      const std::size_t offset = index * Blake3Tree::k_segment_bytes;
      const std::size_t size = std::min(Blake3Tree::k_segment_bytes, bytes.size() - offset);
      tree.set_segment(index, bytes.subspan(offset, size));
    }
    benchmark::DoNotOptimize(tree.finish());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

// Into a window that stays in cache, as a file in the page cache is read.
void bench_copy(benchmark::State& state, const Blake3Kernel* kernel) {
  constexpr std::size_t k_window_bytes = std::size_t{128} << 10;
  Buffer buffer, window;
  const auto bytes = input_of(static_cast<std::size_t>(state.range(0)), buffer);
  const auto copy = window.of_size(k_window_bytes);
  for (auto _ : state) {
    Blake3Tree tree(bytes.size(), *kernel);
    for (std::size_t index = 0; index < tree.segment_count(); ++index) {
      Blake3Segment segment(tree, index);
      const std::size_t begin = index * Blake3Tree::k_segment_bytes;
      for (std::size_t done = 0; done < segment.size_bytes(); done += k_window_bytes)
        segment.copy_and_update(bytes.data() + begin + done, copy);
    }
    benchmark::DoNotOptimize(tree.finish());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

}  // namespace

int main(int argc, char** argv) {
  for (const Blake3Kernel* kernel : blake3_kernels()) {
    const std::string name = blake3_kernel_name(*kernel);
    for (const std::int64_t size : {256 << 10, 4 << 20, 256 << 20}) {
      benchmark::RegisterBenchmark(("blake3/update/" + name).c_str(), bench_update, kernel)->Arg(size);
      benchmark::RegisterBenchmark(("blake3/tree/" + name).c_str(), bench_tree, kernel)->Arg(size);
    }
    benchmark::RegisterBenchmark(("blake3/copy/" + name).c_str(), bench_copy, kernel)->Arg(256 << 20);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
