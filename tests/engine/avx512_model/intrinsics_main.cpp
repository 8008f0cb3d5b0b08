// SPDX-License-Identifier: Apache-2.0
// usage: avx512-intrinsics
// Exits with 0 where all of the model's intrinsics do what the processor's do, and with 77 where it has none.
#include "base/cpu.hpp"
#include "engine/avx512_model/intrinsics.hpp"
#include "testing/random.hpp"

#include <cstdint>
#include <cstdio>

int main() {
  if (!wdelta::cpu_features().avx512_vbmi2) {
    std::puts("skipped: this processor does not have AVX-512 as the engine asks for it");
    return 77;
  }
  const int wrong = wdelta::testing::wrong_intrinsics(wdelta::testing::seed());
  std::printf("%d intrinsics of the model are wrong, WDELTA_SEED=%ju\n", wrong,
              std::uintmax_t{wdelta::testing::seed()});
  return wrong == 0 ? 0 : 1;
}
