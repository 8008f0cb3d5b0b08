// SPDX-License-Identifier: Apache-2.0
#include "elements.hpp"
#include "engine/cuda/laws.hpp"
#include "engine/engine.hpp"

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

struct Found {
  std::vector<std::uint16_t> positions;
  Bytes steps;
};

Found found_by_scalar(const Bytes& base, const Bytes& next, ElementType type) {
  const std::size_t width = type.width_bytes;
  const auto count = static_cast<std::uint32_t>(base.size() / width);
  Found found = {std::vector<std::uint16_t>(count + 64), Bytes((count + 64) * width)};
  const std::uint32_t changes = engine_named("scalar").block(type).find_changes(
      base.data(), next.data(), count, found.positions.data(), found.steps.data());
  found.positions.resize(changes);
  found.steps.resize(changes * width);
  return found;
}

}  // namespace

DEVICE_LAW("steps are applied as scalar finds them, at every length to 200 and alignment") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const auto stream = device.make_stream();
  for (const ElementType type : k_element_types) {
    for (std::size_t count = 0; count <= 200; ++count) {
      const Bytes base = random_bytes(random, count * type.width_bytes);
      const Bytes next = changed(base, type, count % 2 == 0 ? 1.0 : 0.1, random);
      const Found found = found_by_scalar(base, next, type);
      const OnDevice<std::uint8_t> elements(device, *stream, base, count % 16);
      const OnDevice<std::uint16_t> positions(device, *stream, found.positions);
      const OnDevice<std::uint8_t> steps(device, *stream, found.steps);
      stream->apply_changes(type, elements.begin(), positions.begin(), steps.begin(),
                            static_cast<std::uint32_t>(found.positions.size()));
      REQUIRE(elements.get(*stream) == next);
    }
  }
}

DEVICE_LAW("steps of many blocks are applied in one launch, at any density") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const auto stream = device.make_stream();
  for (const ElementType type : k_element_types) {
    Bytes base;
    Bytes next;
    std::vector<std::uint16_t> positions;
    Bytes steps;
    std::vector<DeviceSteps> blocks;
    std::vector<std::size_t> places;
    for (const std::size_t count : {0, 1, 1000, 65535, 65536}) {
      for (const double density : {0.0, 0.01, 1.0}) {
        const Bytes from = random_bytes(random, count * type.width_bytes);
        const Bytes to = changed(from, type, density, random);
        const Found found = found_by_scalar(from, to, type);
        places.push_back(base.size());
        blocks.push_back({nullptr, static_cast<std::uint32_t>(positions.size()),
                          static_cast<std::uint32_t>(found.positions.size())});
        base.insert(base.end(), from.begin(), from.end());
        next.insert(next.end(), to.begin(), to.end());
        positions.insert(positions.end(), found.positions.begin(), found.positions.end());
        steps.insert(steps.end(), found.steps.begin(), found.steps.end());
      }
    }
    const OnDevice<std::uint8_t> elements(device, *stream, base, 1);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].elements = elements.begin() + places[i];
    const OnDevice<DeviceSteps> described(device, *stream, blocks);
    const OnDevice<std::uint16_t> positions_there(device, *stream, positions);
    const OnDevice<std::uint8_t> steps_there(device, *stream, steps);
    stream->apply_changes(type, described.begin(), described.size(), positions_there.begin(), steps_there.begin());
    REQUIRE(elements.get(*stream) == next);
  }
}

}  // namespace wdelta
