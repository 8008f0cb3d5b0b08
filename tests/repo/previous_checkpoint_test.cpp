// SPDX-License-Identifier: Apache-2.0
// A trainer rotates, or writes over, the checkpoint that a push at work compares with.
#include "repo/world.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <functional>

namespace wdelta {

using namespace testing;

namespace {

constexpr const char* k_weights[] = {"model-1.safetensors", "model-2.safetensors"};
constexpr const char* k_optimizer = "optimizer.bin";

/// Two shards and an optimizer's state too large to share an object.
void write_large_checkpoint(const fs::path& directory, int step) {
  std::mt19937_64 random(7);
  for (const char* name : k_weights) {
    TestTensor tensor = random_tensor(name, {"F32", 32}, 400'000, random);
    for (std::size_t i = 0; i < 100; ++i) tensor.bytes[4'000 * i] ^= static_cast<std::uint8_t>(step);
    put_file(directory / name, safetensors_file({tensor}));
  }
  std::string state(1'500'000, '\0');
  for (char& byte : state) byte = static_cast<char>(random());
  for (std::size_t i = 0; i < 100; ++i) state[10'000 * i] = static_cast<char>(state[10'000 * i] ^ step);
  put_file(directory / k_optimizer, state);
}

/// Calls harm() at the call of advance() with a given number.
class HarmingProgress final : public RecordedProgress {
 public:
  HarmingProgress(int calls, std::function<void()> harm) : calls_left_(calls), harm_(std::move(harm)) {}
  void advance(std::uint64_t bytes) override {
    if (calls_left_-- == 0) harm_();
    RecordedProgress::advance(bytes);
  }
  bool has_harmed() const { return calls_left_ < 0; }

 private:
  std::atomic<int> calls_left_;
  std::function<void()> harm_;
};

struct Harm {
  const char* name;
  void (*to)(const fs::path& file);
};

constexpr Harm k_harms[] = {
    {"removed", [](const fs::path& file) { fs::remove(file); }},
    {"cut off", [](const fs::path& file) { fs::resize_file(file, 5); }},
    {"written over", [](const fs::path& file) { put_file(file, std::string(fs::file_size(file), 'x')); }},
};

}  // namespace

TEST_CASE("a previous checkpoint that goes while a push compares with it is read out of the repository") {
  for (const Harm& harm : k_harms) {
    CAPTURE(std::string(harm.name));
    bool has_harmed = true;
    for (int calls = 0; has_harmed; ++calls) {
      CAPTURE(calls);
      const World world;
      for (const int step : {0, 1}) write_large_checkpoint(world / ("large-" + std::to_string(step)), step);
      world.push(world / "large-0");
      HarmingProgress progress(calls, [&] {
        for (const char* name : {k_weights[0], k_weights[1], k_optimizer}) harm.to(world / "large-0" / name);
      });
      PushOptions options;
      options.anchor = AnchorChoice::never;
      const PushReport report = world.push(world / "large-1", options, {}, Execution{2, &progress, {}});
      has_harmed = progress.has_harmed();
      CHECK(report.stored_bytes < 100'000);
      world.pull("main", world / "out");
      REQUIRE((files_below(world / "large-1") == files_below(world / "out")));
    }
  }
}

}  // namespace wdelta
