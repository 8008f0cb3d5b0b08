// SPDX-License-Identifier: Apache-2.0
// Whole files over the kernels of the cuda engine, which the host runs here; where there is a CUDA device, every law of
// this room runs over that too, as over any other engine.
#include "delta/deltas.hpp"
#include "engine/cuda/emulated_device.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

const Engine& emulated_engine() {
  static EmulatedDevice device;
  static const DeviceAnswer answer{&device, "emulated"};
  static const Engine engine = [] {
    Engine made = best_engine();
    made.name = "emulated";
    made.find_device = []() -> const DeviceAnswer& { return answer; };
    return made;
  }();
  return engine;
}

}  // namespace

TEST_CASE("the kernels of the cuda engine make, apply and squash the deltas that a processor makes") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  std::vector<TestTensor> tensors = {weights("w", 22'000 * k_row_elements, random),
                                     weights(std::string(k_used_in_part), 5'000 * k_row_elements, random),
                                     random_tensor("f", {"F32", 32}, 70'001, random),
                                     random_tensor("u", {"U8", 8}, 100'003, random)};
  std::vector<PlacedFile> files = {{"m.safetensors", safetensors_file(tensors)}};
  std::vector<Bytes> deltas;
  FileVersion version = whole_version({"m.safetensors", files[0].bytes.size(), blake3(files[0].bytes)},
                                      reader_of(files[0]), Fault::base_mismatch);
  for (const std::size_t padding : {0, 7}) {
    tensors = with_changes(std::move(tensors), 0.01, random);
    files.push_back({"m.safetensors", safetensors_file(tensors, {}, padding)});
    const std::vector<PlacedFile> base = {files[files.size() - 2]};
    deltas.push_back(make_delta(base, files.back(), {&emulated_engine(), 2}).bytes);
    REQUIRE((deltas.back() == make_delta(base, files.back()).bytes));
    version = delta_version(open_delta(deltas.back()), {version}, emulated_engine());
    REQUIRE((written(version, 2) == files.back().bytes));
  }
  // The chain is read on the device, and compared there.
  const auto base = RebuiltFile::from_file(reader_of(files[0]));
  const MadeDelta squashed =
      make_delta({{"m.safetensors", base}}, "m.safetensors", version.rebuilt, {&emulated_engine(), 2});
  REQUIRE((squashed.bytes == make_delta({files[0]}, files[2]).bytes));
}

}  // namespace wdelta
