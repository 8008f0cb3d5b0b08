// SPDX-License-Identifier: Apache-2.0
#include "engine/device_streams.hpp"

#include "base/error.hpp"
#include "engine/host_pins.hpp"
#include "testing/host_device.hpp"
#include "testing/random.hpp"

#include <doctest/doctest.h>
#include <thread>

using namespace wdelta;
using testing::k_mib;

namespace {

std::uint8_t* bytes_of(const DeviceMemory& memory) { return static_cast<std::uint8_t*>(memory.begin()); }

}  // namespace

TEST_CASE("what goes to a device and comes back through pinned memory is the same, at every length") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::HostDevice device;
  const auto there = device.allocate(5 * k_mib);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, k_mib / 2 - 1, k_mib / 2, k_mib / 2 + 1, k_mib,
                                 k_mib + 1, 2 * k_mib, 5 * k_mib - 3}) {
    CAPTURE(size);
    const auto bytes = testing::random_bytes(random, size);
    std::memset(there->begin(), 0x11, there->size_bytes());
    device.streams().upload(bytes_of(*there) + 3, bytes.data(), size);
    CHECK(std::equal(bytes.begin(), bytes.end(), bytes_of(*there) + 3));
    CHECK(bytes_of(*there)[2] == 0x11);
    if (3 + size < there->size_bytes()) CHECK(bytes_of(*there)[3 + size] == 0x11);
    std::vector<std::uint8_t> back(size + 1, 0x22);
    device.streams().download(back.data(), bytes_of(*there) + 3, size);
    CHECK(std::equal(bytes.begin(), bytes.end(), back.begin()));
    CHECK(back.back() == 0x22);
  }
}

TEST_CASE("streams are lent again, and pinned memory is a little for each of those lent at a time") {
  testing::HostDevice device;
  const auto there = device.allocate(8 * k_mib);
  std::vector<std::uint8_t> here(8 * k_mib);
  DeviceStream* first = nullptr;
  device.streams().with_one([&](DeviceStream& stream) { first = &stream; });
  for (int i = 0; i < 20; ++i) {
    device.streams().upload(there->begin(), here.data(), here.size());
    device.streams().with_one([&](DeviceStream& stream) {
      CHECK(&stream == first);
      device.streams().with_one([&](DeviceStream& other) { CHECK(&other != &stream); });
    });
  }
  CHECK(device.pinned().most_held_bytes < 2 * k_mib);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        device.streams().download(here.data() + i * 2 * k_mib, bytes_of(*there) + i * 2 * k_mib, 2 * k_mib);
      }
    });
  }
  threads.clear();
  CHECK(device.pinned().most_held_bytes <= 4 * 2 * k_mib);
}

TEST_CASE("what is read piece by piece on its way to a device is all there, and a failure to read is passed on") {
  testing::HostDevice device;
  const std::size_t size = 2 * k_mib + 12'345;
  const auto there = device.allocate(size);
  std::size_t expected_offset = 0;
  device.streams().upload(there->begin(), size, [&](std::size_t offset, std::span<std::uint8_t> piece) {
    CHECK(offset == expected_offset);
    expected_offset += piece.size();
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<std::uint8_t>((offset + i) % 251);
  });
  CHECK(expected_offset == size);
  bool is_same = true;
  for (std::size_t i = 0; i < size; ++i) is_same = is_same && bytes_of(*there)[i] == i % 251;
  CHECK(is_same);
  CHECK_THROWS_AS(device.streams().upload(there->begin(), size,
                                          [](std::size_t offset, std::span<std::uint8_t>) {
                                            if (offset > 0) throw Error(Fault::local, "file", "is shorter");
                                          }),
                  Error);
  std::vector<std::uint8_t> back(size);
  device.streams().download(back.data(), there->begin(), size);
  CHECK(back.back() == (size - 1) % 251);
}

TEST_CASE("a stream of a device that fails is not lent again") {
  testing::HostDevice device;
  const auto there = device.allocate(k_mib);
  std::vector<std::uint8_t> here(k_mib, 0x33);
  DeviceStream* lost = nullptr;
  device.streams().with_one([&](DeviceStream& stream) { lost = &stream; });
  device.traffic().waits_until_lost = device.traffic().waits.load();
  CHECK_THROWS_AS(device.streams().with_one([&](DeviceStream& stream) {
    CHECK(&stream == lost);
    stream.upload(there->begin(), here.data(), 1);
  }),
                  Error);
  CHECK_THROWS_AS(device.streams().upload(there->begin(), here.data(), here.size()), Error);
  device.traffic().waits_until_lost = UINT64_MAX;
  std::vector<std::uint8_t> back(k_mib);
  std::memset(there->begin(), 0x44, k_mib);
  // What the lost ones were asked for is not done by those that come after them.
  device.streams().download(back.data(), there->begin(), back.size());
  CHECK(back == std::vector<std::uint8_t>(k_mib, 0x44));
}

TEST_CASE("what is pinned is copied straight, and what is not, or not all of it, by way of memory that is") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  testing::HostDevice device;
  const auto there = device.allocate(4 * k_mib);
  std::vector<std::uint8_t> here = testing::random_bytes(random, 4 * k_mib);
  const auto is_straight = [&](std::size_t begin, std::size_t size) {
    const auto wanted = testing::random_bytes(random, size);
    std::copy(wanted.begin(), wanted.end(), here.begin() + static_cast<std::ptrdiff_t>(begin));
    const auto waits_before = device.traffic().waits.load();
    device.streams().upload(bytes_of(*there) + begin, here.data() + begin, size);
    CHECK(std::equal(wanted.begin(), wanted.end(), bytes_of(*there) + begin));
    std::memset(here.data() + begin, 0x55, size);
    device.streams().download(here.data() + begin, bytes_of(*there) + begin, size);
    CHECK(std::equal(wanted.begin(), wanted.end(), here.begin() + static_cast<std::ptrdiff_t>(begin)));
    return device.traffic().waits == waits_before + 2;
  };
  CHECK_FALSE(is_straight(0, 3 * k_mib));
  {
    HostPins::Pin pin = device.pins().pin(std::span(here).subspan(k_mib, 2 * k_mib));
    CHECK(pin);
    CHECK(device.traffic().pinned_bytes == 2 * k_mib);
    HostPins::Pin moved(std::move(pin));
    CHECK_FALSE(pin);  // NOLINT(bugprone-use-after-move): that it is none is what is asked
    CHECK(is_straight(k_mib, 2 * k_mib));
    CHECK(is_straight(k_mib + 1, 2 * k_mib - 1));
    CHECK_FALSE(is_straight(k_mib - 1, 2 * k_mib));
    CHECK_FALSE(is_straight(k_mib + 1, 2 * k_mib));
    CHECK_FALSE(is_straight(0, 4 * k_mib));
    pin = std::move(moved);
    CHECK(is_straight(k_mib, 2 * k_mib));
    CHECK_FALSE(device.pins().holds(here.data() + 3 * k_mib, 1));
    CHECK(device.pins().holds(here.data() + 3 * k_mib - 1, 1));
  }
  CHECK(device.traffic().pinned_bytes == 0);
  CHECK_FALSE(is_straight(k_mib, 2 * k_mib));
  CHECK_FALSE(device.pins().pin({}));
  device.traffic().can_pin = false;
  CHECK_FALSE(device.pins().pin(here));
  CHECK_FALSE(is_straight(0, 3 * k_mib));
}
