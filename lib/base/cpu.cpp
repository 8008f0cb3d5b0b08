// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.hpp"

namespace wdelta {

// __builtin_cpu_supports asks XGETBV too, so a kernel that does not save the registers reads as "not there".
CpuFeatures cpu_features() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  CpuFeatures features;
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("popcnt");
  features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  features.avx512_vbmi2 = features.avx512 && __builtin_cpu_supports("avx512ifma") &&
                          __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vpopcntdq") &&
                          __builtin_cpu_supports("gfni");
  return features;
#else
  return {};
#endif
}

}  // namespace wdelta
