// SPDX-License-Identifier: Apache-2.0
// The emulated device is strict: each of these would pass by luck on a real one.
#include "base/error.hpp"
#include "engine/cuda/emulated_device.hpp"
#include "testing/fault.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

TEST_CASE("threads of a thread block meet, and of a warp") {
  ThreadBlock block;
  std::vector<std::uint32_t> sums(64);
  std::uint32_t written[64] = {};
  block.run(64, [&](std::uint32_t thread) {
    const EmulatedThreads threads(block, thread, 0);
    written[thread] = thread;
    threads.meet();
    std::uint32_t sum = written[63 - thread];  // of the other warp
    for (std::uint32_t n = 1; n < 32; n *= 2) {
      const std::uint32_t below = threads.shuffle_up(sum, n);
      if (thread % 32 >= n) sum += below;
    }
    sums[thread] = threads.shuffle(sum, 31);
    if (threads.any(thread == 40) != (thread >= 32)) sums[thread] = 0;
  });
  for (std::uint32_t thread = 0; thread < 64; ++thread) CHECK(sums[thread] == (thread < 32 ? 1520 : 496));
}

TEST_CASE("threads that come to different meetings are found") {
  ThreadBlock block;
  const auto run = [&](auto work) {
    block.run(32, [&](std::uint32_t thread) { work(EmulatedThreads(block, thread, 0)); });
  };
  CHECK_THROWS_AS(run([](EmulatedThreads threads) {
                    if (threads.thread() != 5) threads.meet();
                  }),
                  Error);
  CHECK_THROWS_AS(run([](EmulatedThreads threads) {
                    if (threads.thread() < 16) {
                      threads.any(0);
                    } else {
                      threads.shuffle(0, 0);
                    }
                  }),
                  Error);
  run([](EmulatedThreads threads) { threads.meet(); });
}

TEST_CASE("threads that do not meet see each other's writes in no certain order") {
  ThreadBlock block;
  bool is_early = false;
  bool is_late = false;
  for (int round = 0; round < 100; ++round) {
    bool first_has_written = false;
    block.run(64, [&](std::uint32_t thread) {
      if (thread == 0) first_has_written = true;
      if (thread == 63) (first_has_written ? is_late : is_early) = true;
    });
  }
  CHECK(is_early);
  CHECK(is_late);
}

TEST_CASE("a device does nothing before somebody waits") {
  EmulatedDevice device;
  const auto stream = device.make_stream();
  const auto memory = device.allocate(100);
  std::uint32_t value = 1;
  std::uint32_t back = 0;
  stream->upload(memory->begin(), &value, sizeof(value));
  stream->download(&back, memory->begin(), sizeof(value));
  value = 2;
  CHECK(back == 0);
  stream->wait();
  CHECK(back == 2);
}

TEST_CASE("a device's memory begins at multiples of 256 bytes, has its bounds, and is not copied beyond them") {
  EmulatedDevice device(1000);
  const auto stream = device.make_stream();
  const auto memory = device.allocate(700);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->begin()) % 256 == 0);
  CHECK(fault_of([&] { device.allocate(301); }) == Fault::local);
  device.allocate(300);
  CHECK(device.device_bytes() == 700);
  CHECK(device.most_device_bytes() == 1000);
  std::vector<std::uint8_t> host(800);
  auto* const begin = static_cast<std::uint8_t*>(memory->begin());
  CHECK(fault_of([&] { stream->upload(begin + 1, host.data(), 700); }) == Fault::internal);
  CHECK(fault_of([&] { stream->upload(host.data(), host.data(), 1); }) == Fault::internal);
  CHECK(fault_of([&] { stream->download(begin, begin, 1); }) == Fault::internal);
  CHECK(fault_of([&] { stream->copy(begin, host.data(), 1); }) == Fault::internal);
  stream->upload(begin, host.data(), 700);
}

TEST_CASE("what is written behind a piece of memory is found") {
  EmulatedDevice device;
  const auto stream = device.make_stream();
  const auto elements = device.allocate(100);
  const std::uint16_t position = 50;
  const std::uint16_t step = 1;
  const auto positions = device.allocate(2);
  const auto steps = device.allocate(2);
  stream->upload(positions->begin(), &position, 2);
  stream->upload(steps->begin(), &step, 2);
  stream->apply_changes({2, ElementKind::integer}, elements->begin(),
                        static_cast<const std::uint16_t*>(positions->begin()), steps->begin(), 1);
  CHECK(fault_of([&] { stream->wait(); }) == Fault::internal);
}

TEST_CASE("a lost device says so when it is waited for") {
  EmulatedDevice device;
  const auto stream = device.make_stream();
  device.lose();
  CHECK(fault_of([&] { stream->wait(); }) == Fault::local);
}

TEST_CASE("there is a CUDA device, or a reason why not") {
  const DeviceAnswer& answer = cuda_device();
  MESSAGE("CUDA: ", answer.reason);
  CHECK_FALSE(answer.reason.empty());
  CHECK(&answer == &cuda_device());
  int on_the_host = 0;
  CHECK(cuda_device_holding(&on_the_host).device == nullptr);
}

}  // namespace wdelta
