// SPDX-License-Identifier: Apache-2.0
// WDELTA_REQUIRE_CUDA=1 makes a failure of each law that is skipped for want of a device.
#include "engine/cuda/laws.hpp"

#include <cstdlib>
#include <iostream>
#include <string_view>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

namespace {

std::vector<std::string>& skipped() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

wdelta::Device* wdelta::testing::cuda_device_for(const char* law) {
  const DeviceAnswer& answer = cuda_device();
  if (answer.device != nullptr) return answer.device;
  const char* const require = std::getenv("WDELTA_REQUIRE_CUDA");
  if (require != nullptr && std::string_view(require) == "1") FAIL("no CUDA device: ", answer.reason);
  skipped().emplace_back(law);
  return nullptr;
}

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  for (const std::string& name : skipped()) std::cout << "skipped: CUDA device: " << name << "\n";
  if (!skipped().empty()) {
    std::cout << skipped().size() << " skipped: no CUDA device: " << wdelta::cuda_device().reason << "\n";
  }
  return result;
}
