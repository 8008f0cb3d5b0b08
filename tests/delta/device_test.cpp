// SPDX-License-Identifier: Apache-2.0
#include "delta/deltas.hpp"
#include "testing/fault.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr DtypeBits k_bf16_bits = {"BF16", 16};
constexpr std::uint64_t k_segment_elements = Blake3Tree::k_segment_bytes / 2;

/// Weights whose exponents lie close together, in rows.
TestTensor weights(std::string name, std::uint64_t count, std::mt19937_64& random) {
  TestTensor tensor = random_tensor(std::move(name), k_bf16_bits, count, random);
  tensor.shape = {count / 64, 64};
  for (std::size_t i = 1; i < tensor.bytes.size(); i += 2) {
    tensor.bytes[i] = static_cast<std::uint8_t>((tensor.bytes[i] & 0x80) | (0x38 + random() % 8));
  }
  return tensor;
}

std::vector<TestTensor> several_segments(std::mt19937_64& random) {
  std::vector<TestTensor> tensors;
  tensors.push_back(weights("embedding", 2 * k_segment_elements + 64 * 100, random));
  tensors.push_back(random_tensor("norm", {"F32", 32}, 1000, random));
  tensors.push_back(weights("up", k_segment_elements / 2, random));
  tensors.push_back(random_tensor("scales", {"F32", 32}, 300'001, random));
  tensors.push_back(random_tensor("codes", {"U8", 8}, 700'003, random));
  tensors.push_back(random_tensor("steps", {"I64", 64}, 70'000, random));
  tensors.push_back({"biases", "BF16", {200'000}, Bytes(400'000)});
  tensors.push_back(weights("down", k_segment_elements, random));
  return tensors;
}

PlacedFile file_of(const std::vector<TestTensor>& tensors, std::size_t padding = 0) {
  return {"m.safetensors", safetensors_file(tensors, {}, padding)};
}

void require_same_delta(const std::vector<PlacedFile>& base, const PlacedFile& next) {
  const MadeDelta expected = make_delta(base, next);
  for (const unsigned threads : {1U, 5U}) {
    CAPTURE(threads);
    const MadeDelta made = make_delta(base, next, {&host_device_engine(), threads});
    REQUIRE((made.bytes == expected.bytes));
    REQUIRE(made.change.description.change_count == expected.change.description.change_count);
    REQUIRE((apply_delta(made.bytes, base, {&host_device_engine(), threads}) == next.bytes));
  }
}

}  // namespace

TEST_CASE("a device makes the deltas that a processor makes, of files of several segments") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = several_segments(random);
  const PlacedFile base = file_of(tensors);
  for (const double density : {0.0, 0.00005, 0.01, 0.2, 0.9}) {
    CAPTURE(density);
    require_same_delta({base}, file_of(with_changes(tensors, density, random)));
  }
}

TEST_CASE("a device makes the same deltas where tensors are shifted, moved, new, or gone") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = several_segments(random);
  const PlacedFile base = file_of(tensors);
  auto next = with_changes(tensors, 0.01, random);
  for (const std::size_t padding : {1, 8, 40'000, 100'000}) {
    CAPTURE(padding);
    require_same_delta({base}, file_of(next, padding));
    require_same_delta({file_of(tensors, padding)}, file_of(next));
  }
  std::shuffle(next.begin(), next.end(), random);
  require_same_delta({base}, file_of(next));
  next.push_back(weights("new", 64 * 1500, random));
  next.erase(next.begin() + 2);
  require_same_delta({base}, file_of(next));
  PlacedFile other = file_of({weights("else", k_segment_elements, random)});
  other.path = "n.safetensors";
  require_same_delta({other, base}, file_of(next));
  require_same_delta({}, file_of(next));
  require_same_delta({base}, file_of({next.front()}));
}

TEST_CASE("files of one segment, and of less, are hashed by the host") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const std::uint64_t count : {0, 64, 64 * 1000, 64 * 32'768 - 320, 64 * 32'768}) {
    CAPTURE(count);
    const std::vector<TestTensor> tensors = {weights("w", count, random)};
    require_same_delta({file_of(tensors)}, file_of(with_changes(tensors, 0.01, random)));
  }
}

TEST_CASE("files that are no safetensors files take a device too, where it is of use") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const PlacedFile base{"m.bin", weights("w", 3 * k_segment_elements + 7 * 64, random).bytes};
  const PlacedFile next{"m.bin", with_changes(base.bytes, 2, 0.01, random)};
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::unknown_bytes, BlockChoice::classed}) {
    const Bytes expected = make_opaque_delta({base}, next, "BF16", {&engines().back(), 1, choice}).bytes;
    for (const unsigned threads : {1U, 4U}) {
      const Run run{&host_device_engine(), threads, choice};
      REQUIRE((make_opaque_delta({base}, next, "BF16", run).bytes == expected));
      REQUIRE((apply_delta(expected, {base}, run) == next.bytes));
    }
  }
}

TEST_CASE("of what a device compares only changes come home, and it hashes what it can") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {weights("w", 6 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  DeviceTraffic& traffic = host_device().traffic();
  traffic.forget();
  const MadeDelta made = make_delta({base}, next, {&host_device_engine(), 2});
  const std::uint64_t changes = made.change.description.change_count;
  CHECK(traffic.uploaded_bytes < base.bytes.size() + next.bytes.size() + 14 * (std::uint64_t{256} << 10));
  // Positions, steps and ranks of two bytes each; contexts and classes of one.
  CHECK(traffic.downloaded_bytes >= 8 * changes);
  CHECK(traffic.downloaded_bytes < 8 * changes + 20'000);
  CHECK(traffic.hashed_bytes == 12 * Blake3Tree::k_segment_bytes);
}

TEST_CASE("memory of a device is bounded, and given back") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const DtypeBits dtype : {DtypeBits{"U8", 8}, k_bf16_bits, DtypeBits{"F32", 32}}) {
    const std::vector<TestTensor> tensors = {
        random_tensor("w", dtype, 8 * k_segment_elements * 16 / dtype.bits, random)};
    const PlacedFile base = file_of(tensors);
    auto next = with_changes(tensors, 0.2, random);
    std::ranges::reverse(next);
    host_device().traffic().most_held_bytes = host_device().pinned().most_held_bytes = 0;
    make_delta({base}, file_of(next), {&host_device_engine(), 2});
    CHECK(host_device().traffic().held_bytes == 0);
    CHECK(host_device().pinned().held_bytes == 0);
    CHECK(host_device().traffic().most_held_bytes <= 4 * (std::int64_t{64} << 20));
    CHECK(host_device().pinned().most_held_bytes <= 4 * (std::int64_t{32} << 20));
  }
}

TEST_CASE("a device that is lost is an error with a way out, and leaves nothing") {
  std::mt19937_64 random(seed());
  const std::vector<TestTensor> tensors = {weights("w", 4 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  DeviceTraffic& traffic = host_device().traffic();
  for (const std::uint64_t waits : {0, 1, 2, 5, 9}) {
    CAPTURE(waits);
    traffic.forget();
    traffic.waits_until_lost = waits;
    try {
      make_delta({base}, next, {&host_device_engine(), 2});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::local);
      CHECK(error.hint().find("--engine auto") != std::string::npos);
    }
    traffic.waits_until_lost = UINT64_MAX;
    CHECK(traffic.held_bytes == 0);
  }
}

}  // namespace wdelta
