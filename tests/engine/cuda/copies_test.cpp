// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.hpp"
#include "engine/cuda/laws.hpp"
#include "engine/device_streams.hpp"
#include "engine/host_pins.hpp"
#include "testing/random.hpp"

namespace wdelta {

using namespace testing;

DEVICE_LAW(
    "memory of the host goes to a device and comes back whether it is pinned, no longer pinned or pinned again") {
  constexpr std::size_t k_size = (std::size_t{5} << 20) + 3;
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto there = device.allocate(k_size);
  Buffer memory;
  const auto here = memory.of_size(k_size);
  const auto goes_and_comes = [&] {
    const auto bytes = random_bytes(random, k_size);
    std::ranges::copy(bytes, here.begin());
    device.streams().upload(there->begin(), here.data(), k_size);
    std::ranges::fill(here, std::uint8_t{0});
    device.streams().download(here.data(), there->begin(), k_size);
    CHECK(std::ranges::equal(here, bytes));
  };
  goes_and_comes();
  for (int turn = 0; turn < 2; ++turn) {
    const HostPins::Pin pin = device.pins().pin(here);
    CHECK(pin);
    CHECK(device.pins().holds(here.data() + 1, k_size - 1));
    goes_and_comes();
  }
  CHECK_FALSE(device.pins().holds(here.data(), 1));
  goes_and_comes();
  // No memory at all, which a driver refuses, and whose refusal the next call must not hear of.
  CHECK_FALSE(device.pins().pin({static_cast<std::uint8_t*>(nullptr), 4096}));
  goes_and_comes();
}

}  // namespace wdelta
