// SPDX-License-Identifier: Apache-2.0
#include "engine/device_memories.hpp"

#include "base/error.hpp"
#include "engine/device_buffer.hpp"
#include "testing/host_device.hpp"

#include <doctest/doctest.h>

using namespace wdelta;
using testing::k_mib;

namespace {

using Place = DeviceMemories::Place;
}  // namespace

TEST_CASE("memory that was given back is given out again, to whom it fits, and to one at a time") {
  for (const Place place : {Place::device, Place::pinned}) {
    testing::HostDevice device;
    const auto& held = place == Place::device ? device.traffic().held_bytes : device.pinned().held_bytes;
    DeviceMemories& memories = device.memories();
    auto small = memories.take(place, k_mib);
    auto large = memories.take(place, 10 * k_mib);
    const void* const there[] = {small->begin(), large->begin()};
    CHECK(there[0] != there[1]);
    memories.give_back(place, std::move(large));
    memories.give_back(place, std::move(small));
    CHECK(held == 11 * k_mib);
    // Not what is too small, and not what would be wasted.
    small = memories.take(place, k_mib / 2);
    CHECK(small->begin() == there[0]);
    const auto between = memories.take(place, 4 * k_mib);
    CHECK(between->begin() != there[1]);
    large = memories.take(place, 5 * k_mib);
    CHECK(large->begin() == there[1]);
    CHECK(held == 15 * k_mib);
    CHECK(memories.take(place, k_mib)->begin() != there[0]);
  }
}

TEST_CASE("borrowed memory is freed when the last who would borrow again goes, and else it stays") {
  testing::HostDevice device;
  const auto borrow = [&] {
    DeviceBuffer on_device(device, Place::device);
    DeviceBuffer pinned(device, Place::pinned);
    on_device.of_size(k_mib);
    on_device.of_size(3 * k_mib);
    pinned.of_size(k_mib);
  };
  borrow();
  const std::int64_t held = device.traffic().held_bytes;
  CHECK(held >= 4 * k_mib);
  CHECK(device.pinned().held_bytes >= k_mib);
  borrow();
  CHECK(device.traffic().held_bytes == held);
  {
    const DeviceMemories::User one(device.memories());
    {
      const DeviceMemories::User other(device.memories());
      borrow();
    }
    CHECK(device.traffic().held_bytes == held);
  }
  CHECK(device.traffic().held_bytes == 0);
  CHECK(device.pinned().held_bytes == 0);
}

TEST_CASE("what nobody has is no reason for a device to be out of memory") {
  testing::HostDevice device;
  device.traffic().room_bytes = 10 * k_mib;
  DeviceMemories& memories = device.memories();
  auto first = memories.take(Place::device, 4 * k_mib);
  CHECK(memories.room_bytes() == 6 * k_mib);
  memories.give_back(Place::device, memories.take(Place::device, 5 * k_mib));
  CHECK(memories.room_bytes() == 6 * k_mib);  // what was given back is room too
  CHECK_THROWS_AS(memories.take(Place::device, 7 * k_mib), Error);
  CHECK(device.traffic().held_bytes == 4 * k_mib);
  CHECK(memories.take(Place::device, 6 * k_mib)->size_bytes() == 6 * k_mib);
  memories.give_back(Place::device, std::move(first));
  CHECK(memories.take(Place::device, 10 * k_mib)->size_bytes() == 10 * k_mib);
  CHECK_THROWS_AS(memories.take(Place::device, 11 * k_mib), Error);
}

TEST_CASE("a device's buffer that moves takes its memory along") {
  testing::HostDevice device;
  DeviceBuffer from(device, Place::device);
  const std::uint8_t* const there = from.of_size(k_mib);
  DeviceBuffer to(std::move(from));
  CHECK(to.begin() == there);
  DeviceBuffer other(device, Place::device);
  other.of_size(k_mib);
  other = std::move(to);
  CHECK(other.begin() == there);
  CHECK(device.memories().take(Place::device, k_mib)->begin() != there);
}
