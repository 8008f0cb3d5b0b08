// SPDX-License-Identifier: Apache-2.0
// The processor that immintrin.h beside it makes of any with AVX2, for the engine: BLAKE3's kernels are not among what
// it runs, and a second engine of vectors would only take time.
#include "base/cpu.hpp"

#include <cstdio>
#include <cstdlib>

namespace wdelta {

const CpuFeatures& cpu_features() {
  // Not with one engine less: laws over scalar alone would hold, and say nothing.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) {
    std::puts("skipped: this processor does not have AVX2, which the model of AVX-512 is compiled for");
    std::exit(77);
  }
  static constexpr CpuFeatures features = {.avx512_vbmi2 = true};
  return features;
}

}  // namespace wdelta
