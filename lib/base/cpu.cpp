// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace wdelta {

#if defined(__x86_64__)
namespace {

// 0 where it is none of AMD's. AMD64 Architecture Programmer's Manual, volume 3, appendix E: the extended family counts
// on from 15.
unsigned amd_family() {
  unsigned highest = 0, vendor[3] = {}, identity = 0, unused = 0;
  if (__get_cpuid(0, &highest, &vendor[0], &vendor[2], &vendor[1]) == 0) return 0;
  if (vendor[0] != signature_AMD_ebx || vendor[1] != signature_AMD_edx || vendor[2] != signature_AMD_ecx) return 0;
  if (__get_cpuid(1, &identity, &unused, &unused, &unused) == 0) return 0;
  const unsigned base = identity >> 8 & 0xf;
  return base == 0xf ? base + (identity >> 20 & 0xff) : base;
}

}  // namespace
#endif

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
  features.avx512_wide = features.avx512 && amd_family() >= 0x1a;
  return features;
#else
  return {};
#endif
}

}  // namespace wdelta
