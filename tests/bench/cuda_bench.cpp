// SPDX-License-Identifier: Apache-2.0
// What a CUDA device reaches on random bf16 that lie in its memory, as GB/s and as a share of what a copy reaches.
//   bench-cuda [SIZE_MIB [ROUNDS]]    8192 and 10; the device needs twice SIZE, and 4 GiB
//   bench-cuda --emulated             a few MiB on the emulated device: shows that the benchmark does what it says
#include "base/error.hpp"
#include "engine/class_map.hpp"
#include "engine/cuda/emulated_device.hpp"
#include "engine/engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace wdelta;

constexpr ElementType k_bf16 = {2, ElementKind::floating};
constexpr std::size_t k_block_bytes = std::size_t{2} * k_block_elements;
constexpr std::size_t k_subtree_bytes = std::size_t{4} << 20;
// Results of so many blocks lie on the device at once.
constexpr std::size_t k_batch_blocks = 4096;
// As the encoder chooses them: where weights are most, a class for each exponent.
constexpr std::uint8_t k_bounds[] = {110, 113, 115, 116, 117, 118, 119, 120, 121};

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Weights: half of them in the highest exponent, a quarter in the next.
std::uint16_t weight(std::uint64_t random) {
  const auto exponent = 121 - std::min(__builtin_ctzll(random >> 8 | std::uint64_t{1} << 40), 30);
  return static_cast<std::uint16_t>((random & 0x807f) | static_cast<std::uint64_t>(exponent) << 7);
}

enum class Side { base, next };

/// One block of one side; with this share of its elements changed, by one step.
void fill_block(std::uint16_t* elements, std::size_t block, Side side, double density) {
  const auto limit = static_cast<std::uint64_t>(density * 16777216.0);
  for (std::uint32_t i = 0; i < k_block_elements; ++i) {
    const std::uint64_t random = mixed((block * k_block_elements + i + 1) * 0x9e3779b97f4a7c15);
    std::uint16_t element = weight(random);
    if (side == Side::next && random >> 40 < limit) element = static_cast<std::uint16_t>(element ^ 1);
    elements[i] = element;
  }
}

/// Everything on the device that is measured.
class Bench {
 public:
  Bench(Device& device, std::size_t blocks, int rounds)
      : device_(device),
        stream_(device.make_stream()),
        blocks_(blocks),
        batch_(std::min(blocks, k_batch_blocks)),
        rounds_(rounds),
        base_(device.allocate(blocks * k_block_bytes)),
        next_(device.allocate(blocks * k_block_bytes)),
        described_(device.allocate(blocks * sizeof(DeviceBlock))),
        counts_(device.allocate(batch_ * 4)),
        positions_(rows(2)),
        steps_(rows(2)),
        contexts_(rows(1)),
        ranks_(rows(2)),
        classes_(rows(1)),
        members_(device.allocate(batch_ * k_most_classes * sizeof(std::uint32_t))),
        spare_(device.allocate(batch_ * k_block_bytes)) {
    std::vector<DeviceBlock> described;
    for (std::size_t i = 0; i < blocks; ++i) {
      described.push_back({bytes(*base_) + i * k_block_bytes, bytes(*next_) + i * k_block_bytes, k_block_elements});
    }
    stream_->upload(described_->begin(), described.data(), described.size() * sizeof(DeviceBlock));
    stream_->wait();
    fill(*base_, Side::base, 0);
  }

  void run() {
    const std::size_t size = blocks_ * k_block_bytes;
    // Counted as read and written.
    copy_ = 2.0 * static_cast<double>(size) / seconds([&] { stream_->copy(next_->begin(), base_->begin(), size); });
    std::printf("%-46s %9.1f GB/s\n", "copy, bytes read and written", copy_ / 1e9);
    print("BLAKE3, subtrees of 4 MiB, bytes hashed", static_cast<double>(size), seconds([&] { hash(); }));
    for (const double density : {0.001, 0.01, 0.028, 0.1}) {
      fill(*next_, Side::next, density);
      std::printf("%g %% changed\n", 100 * density);
      print("  diff, bytes read", 2.0 * static_cast<double>(size),
            seconds([&] { each_batch([&](std::size_t first, std::size_t count) { find(first, count); }); }));
      print("  diff and ranks, bytes read by the diff", 2.0 * static_cast<double>(size), seconds([&] {
              each_batch([&](std::size_t first, std::size_t count) {
                find(first, count);
                rank(first, count);
              });
            }));
      print("  diff, ranks, changes home, bytes read by it", 2.0 * static_cast<double>(size), seconds([&] {
              each_batch([&](std::size_t first, std::size_t count) {
                find(first, count);
                rank(first, count);
                bring_home(count);
              });
            }));
      patch_batch();
    }
  }

 private:
  static std::uint8_t* bytes(const DeviceMemory& memory) { return static_cast<std::uint8_t*>(memory.begin()); }
  std::unique_ptr<DeviceMemory> rows(std::size_t width_bytes) {
    return device_.allocate(batch_ * k_device_block_changes * width_bytes);
  }
  DeviceChanges found() const {
    return {static_cast<std::uint32_t*>(counts_->begin()), static_cast<std::uint16_t*>(positions_->begin()),
            steps_->begin(), static_cast<std::uint8_t*>(contexts_->begin())};
  }
  const DeviceBlock* described(std::size_t first) const {
    return static_cast<const DeviceBlock*>(described_->begin()) + first;
  }

  /// The median of some rounds, after one that is not counted; `before` is not counted either.
  double seconds(
      const std::function<void()>& work, const std::function<void()>& before = [] {}) {
    std::vector<double> taken;
    for (int round = 0; round <= rounds_; ++round) {
      before();
      stream_->wait();
      const auto start = std::chrono::steady_clock::now();
      work();
      stream_->wait();
      taken.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(taken.begin() + 1, taken.end());
    return taken[1 + static_cast<std::size_t>(rounds_) / 2];
  }
  void print(const char* what, double counted_bytes, double taken) const {
    const double rate = counted_bytes / taken;
    std::printf("%-46s %9.1f GB/s  %5.1f %% of the copy\n", what, rate / 1e9, 100 * rate / copy_);
    std::fflush(stdout);
  }

  void fill(const DeviceMemory& memory, Side side, double density) {
    constexpr std::size_t k_piece_blocks = 1024;
    const auto piece = device_.allocate_pinned(std::min(blocks_, k_piece_blocks) * k_block_bytes);
    for (std::size_t first = 0; first < blocks_; first += k_piece_blocks) {
      const std::size_t count = std::min(k_piece_blocks, blocks_ - first);
      std::atomic<std::size_t> next = 0;
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
        threads.emplace_back([&] {
          for (std::size_t block = next++; block < count; block = next++) {
            fill_block(reinterpret_cast<std::uint16_t*>(bytes(*piece) + block * k_block_bytes), first + block, side,
                       density);
          }
        });
      }
      threads.clear();
      stream_->upload(bytes(memory) + first * k_block_bytes, piece->begin(), count * k_block_bytes);
      stream_->wait();
    }
  }

  template <class Visit>
  void each_batch(Visit visit) {
    for (std::size_t first = 0; first < blocks_; first += batch_) visit(first, std::min(batch_, blocks_ - first));
  }

  void hash() {
    // Scratch and values lie where results lie at other times.
    const std::size_t subtrees = blocks_ * k_block_bytes / k_subtree_bytes;
    const std::size_t most = std::max<std::size_t>(batch_ * k_block_bytes / k_subtree_bytes, 1);
    for (std::size_t first = 0; first < subtrees; first += most) {
      stream_->hash_subtrees(bytes(*base_) + first * k_subtree_bytes, k_subtree_bytes, std::min(most, subtrees - first),
                             first * (k_subtree_bytes / 1024), positions_->begin(),
                             static_cast<std::uint32_t*>(steps_->begin()));
    }
  }
  void find(std::size_t first, std::size_t count) { stream_->find_changes(k_bf16, described(first), count, found()); }
  void rank(std::size_t first, std::size_t count) {
    stream_->rank_changes(k_bf16, described(first), count, k_bounds, found(),
                          static_cast<std::uint16_t*>(ranks_->begin()), static_cast<std::uint8_t*>(classes_->begin()),
                          static_cast<std::uint32_t*>(members_->begin()));
  }

  struct Home {
    std::unique_ptr<DeviceMemory> starts_there, packed, starts, counts, changes;
    std::size_t room = 0;
  };

  /// Steps, ranks and classes of the batch, five bytes a change, in pinned memory. Returns how many changes.
  std::size_t bring_home(std::size_t count) {
    if (home_.counts == nullptr) {
      home_.counts = device_.allocate_pinned(batch_ * 4);
      home_.starts = device_.allocate_pinned(batch_ * 4);
      home_.starts_there = device_.allocate(batch_ * 4);
    }
    stream_->download(home_.counts->begin(), counts_->begin(), count * 4);
    stream_->wait();
    auto* const counts = static_cast<std::uint32_t*>(home_.counts->begin());
    auto* const starts = static_cast<std::uint32_t*>(home_.starts->begin());
    std::uint32_t changes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      starts[i] = changes;
      changes += counts[i];
    }
    const std::size_t whole = (std::size_t{changes} + 255) / 256 * 256;
    if (home_.room < whole) {
      home_.room = whole + whole / 8 / 256 * 256;
      home_.packed = device_.allocate(5 * home_.room);
      home_.changes = device_.allocate_pinned(5 * home_.room);
    }
    stream_->upload(home_.starts_there->begin(), starts, count * 4);
    const DevicePacking arrays[] = {{steps_->begin(), bytes(*home_.packed), 2},
                                    {ranks_->begin(), bytes(*home_.packed) + 2 * home_.room, 2},
                                    {classes_->begin(), bytes(*home_.packed) + 4 * home_.room, 1}};
    stream_->pack(arrays, static_cast<const std::uint32_t*>(counts_->begin()),
                  static_cast<const std::uint32_t*>(home_.starts_there->begin()), count);
    const auto fetch = [&](std::size_t at, std::size_t size_bytes) {
      stream_->download(bytes(*home_.changes) + at, bytes(*home_.packed) + at, size_bytes);
    };
    fetch(0, 2 * std::size_t{changes});
    fetch(2 * home_.room, 2 * std::size_t{changes});
    fetch(4 * home_.room, changes);
    stream_->wait();
    return changes;
  }

  /// The first batch is patched: by ranks in classes, and by positions.
  void patch_batch() {
    find(0, batch_);
    rank(0, batch_);
    const std::size_t changes = bring_home(batch_);
    const auto* const counts = static_cast<const std::uint32_t*>(home_.counts->begin());
    const auto* const starts = static_cast<const std::uint32_t*>(home_.starts->begin());
    const auto* const steps = reinterpret_cast<const std::uint16_t*>(bytes(*home_.changes));
    const auto* const ranks = reinterpret_cast<const std::uint16_t*>(bytes(*home_.changes) + 2 * home_.room);
    const std::uint8_t* const classes = bytes(*home_.changes) + 4 * home_.room;
    constexpr std::size_t k_room = 32;
    std::vector<std::uint16_t> gaps(changes + k_room);
    std::vector<std::uint32_t> ordered_ranks(changes);
    std::vector<std::uint16_t> moves(changes + k_room);
    std::vector<DevicePatch> patches(batch_);
    std::vector<DeviceSteps> by_positions(batch_);
    for (std::size_t block = 0; block < batch_; ++block) {
      DevicePatch& patch = patches[block];
      patch.elements = bytes(*spare_) + block * k_block_bytes;
      patch.count = k_block_elements;
      patch.first_change = starts[block];
      patch.first_flip = k_no_flips;
      std::ranges::copy(k_bounds, patch.bounds);
      patch.bound_count = static_cast<std::uint8_t>(std::size(k_bounds));
      constexpr std::uint32_t k_classes = std::size(k_bounds) + 1;
      std::array<std::uint32_t, k_classes> rank_ends;
      const std::uint16_t* gap = gaps.data() + starts[block];
      std::uint32_t* rank = ordered_ranks.data() + starts[block];
      std::uint16_t* move = moves.data() + starts[block];
      const ChangesInOrder in_order = {classes + starts[block], ranks + starts[block], steps + starts[block],
                                       counts[block], k_classes};
      const ChangesByClass by_class = {gaps.data() + starts[block], move, patch.class_changes, rank_ends.data()};
      best_engine().kernels->coding.order_by_class(&in_order, sizeof(*steps), &by_class);
      for (std::uint32_t k = 0; k < k_classes; ++k) {
        std::uint32_t next = 0;
        for (const std::uint32_t* const end = rank + patch.class_changes[k]; rank < end; ++gap, ++rank, ++move) {
          *rank = next + *gap;
          next = *rank + 1;
          *move = static_cast<std::uint16_t>((*move >> 1) ^ static_cast<std::uint16_t>(0 - (*move & 1)));
        }
      }
      // Steps of a block, where they were found.
      by_positions[block] = {patch.elements, static_cast<std::uint32_t>(block * k_device_block_changes), counts[block]};
    }
    const auto there = [&](const auto& entries) {
      auto memory = device_.allocate(entries.size() * sizeof(entries[0]));
      stream_->upload(memory->begin(), entries.data(), entries.size() * sizeof(entries[0]));
      return memory;
    };
    const auto patches_there = there(patches);
    const auto ranks_there = there(ordered_ranks);
    const auto moves_there = there(moves);
    const auto steps_there = there(by_positions);
    const auto statuses = device_.allocate(batch_ * sizeof(std::uint32_t));
    const auto restore = [&] { stream_->copy(spare_->begin(), base_->begin(), batch_ * k_block_bytes); };
    const double size = static_cast<double>(batch_ * k_block_bytes);
    const double density = static_cast<double>(changes) / static_cast<double>(batch_ * k_block_elements);
    // A sector of 32 bytes holds 16 elements: read and written if one of them changes.
    const double touched = 2 * size * (1 - std::pow(1 - density, 16)) + 4 * static_cast<double>(changes);
    const double by_ranks = seconds(
        [&] {
          stream_->patch(k_bf16, static_cast<const DevicePatch*>(patches_there->begin()), batch_,
                         static_cast<const std::uint32_t*>(ranks_there->begin()), moves_there->begin(), nullptr,
                         static_cast<std::uint32_t*>(statuses->begin()));
        },
        restore);
    expect_next(statuses->begin());
    print("  patch by ranks, bytes of the weights", size, by_ranks);
    const double by_places = seconds(
        [&] {
          stream_->apply_changes(k_bf16, static_cast<const DeviceSteps*>(steps_there->begin()), batch_,
                                 static_cast<const std::uint16_t*>(positions_->begin()), steps_->begin());
        },
        restore);
    expect_next(nullptr);
    print("  patch by positions, bytes of sectors touched", touched, by_places);
  }

  /// What was patched last became `next`, and no block was refused.
  void expect_next(const void* statuses) {
    std::vector<std::uint32_t> refused(statuses == nullptr ? 0 : batch_);
    stream_->download(refused.data(), statuses, refused.size() * sizeof(refused[0]));
    std::vector<std::uint8_t> patched(k_block_bytes);
    std::vector<std::uint8_t> expected(k_block_bytes);
    stream_->download(patched.data(), bytes(*spare_) + (batch_ - 1) * k_block_bytes, k_block_bytes);
    stream_->download(expected.data(), bytes(*next_) + (batch_ - 1) * k_block_bytes, k_block_bytes);
    stream_->wait();
    const bool are_done = std::all_of(refused.begin(), refused.end(), [](std::uint32_t status) { return status == 0; });
    if (!are_done || patched != expected) throw Error(Fault::internal, "bench-cuda", "a patch went wrong");
  }

  Device& device_;
  std::unique_ptr<DeviceStream> stream_;
  std::size_t blocks_;
  std::size_t batch_;
  int rounds_;
  std::unique_ptr<DeviceMemory> base_, next_, described_, counts_, positions_, steps_, contexts_, ranks_, classes_,
      members_, spare_;
  Home home_;
  double copy_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool is_emulated = argc > 1 && std::string(argv[1]) == "--emulated";
  testing::EmulatedDevice emulated;
  Device* const device = is_emulated ? &emulated : cuda_device().device;
  if (device == nullptr) {
    std::fprintf(stderr, "bench-cuda: no CUDA device: %s\n", cuda_device().reason.c_str());
    return 77;
  }
  const std::size_t size_mib = is_emulated ? 8 : argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8192;
  const int rounds = is_emulated ? 1 : argc > 2 ? std::atoi(argv[2]) : 10;
  if (size_mib < 4 || size_mib % 4 != 0 || rounds < 1) {
    std::fprintf(stderr, "usage: bench-cuda [SIZE_MIB [ROUNDS]]: a multiple of 4, and 1 or more\n");
    return 2;
  }
  try {
    std::printf("%s, %zu MiB of bf16 a side, the median of %d\n", device->name().c_str(), size_mib, rounds);
    Bench(*device, (size_mib << 20) / k_block_bytes, rounds).run();
  } catch (const Error& error) {
    std::fprintf(stderr, "bench-cuda: %s: %s\n", error.object().c_str(), error.what());
    return 3;
  }
  return 0;
}
