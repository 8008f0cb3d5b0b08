// SPDX-License-Identifier: Apache-2.0
// The processor that immintrin.h beside it makes of any with AVX2, for the engine: BLAKE3's kernels are not among what
// it runs, and a second engine of vectors would only take time.
#include "base/cpu.hpp"

namespace wdelta {

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = {.avx512_vbmi2 =
                                           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")};
  return features;
}

}  // namespace wdelta
