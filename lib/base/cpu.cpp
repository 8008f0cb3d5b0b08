// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace wdelta {

namespace {

#if defined(__x86_64__)

enum class Vendor { amd, intel, other };

struct Processor {
  Vendor vendor = Vendor::other;
  unsigned family = 0;
};

// AMD64 Architecture Programmer's Manual, volume 3, appendix E: the extended family counts on from 15.
Processor processor() {
  unsigned highest = 0, vendor[3] = {}, identity = 0, unused = 0;
  if (__get_cpuid(0, &highest, &vendor[0], &vendor[2], &vendor[1]) == 0) return {};
  if (__get_cpuid(1, &identity, &unused, &unused, &unused) == 0) return {};
  const auto is_of = [&](unsigned b, unsigned d, unsigned c) {
    return vendor[0] == b && vendor[1] == d && vendor[2] == c;
  };
  Processor found;
  if (is_of(signature_AMD_ebx, signature_AMD_edx, signature_AMD_ecx)) found.vendor = Vendor::amd;
  if (is_of(signature_INTEL_ebx, signature_INTEL_edx, signature_INTEL_ecx)) found.vendor = Vendor::intel;
  const unsigned base = identity >> 8 & 0xf;
  found.family = base == 0xf ? base + (identity >> 20 & 0xff) : base;
  return found;
}

// __builtin_cpu_supports asks XGETBV too, so a kernel that does not save the registers reads as "not there".
CpuFeatures found_features() {
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
  const Processor here = processor();
  const bool is_zen_4 = here.vendor == Vendor::amd && here.family < 0x1a;
  features.avx512_on_two_ports = features.avx512 && (here.vendor == Vendor::intel || is_zen_4);
  features.near_prefetches = features.avx512 && is_zen_4;
  return features;
}

#else

CpuFeatures found_features() { return {}; }

#endif

}  // namespace

// Asking takes microseconds where a hypervisor answers.
const CpuFeatures& cpu_features() {
  static const CpuFeatures features = found_features();
  return features;
}

}  // namespace wdelta
