// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace wdelta {

/// The instruction sets that this processor has and this operating system saves on a context switch.
struct CpuFeatures {
  bool avx2 = false;          ///< AVX2, BMI1, BMI2, POPCNT
  bool avx512 = false;        ///< AVX-512 F, BW, DQ, VL
  bool avx512_vbmi2 = false;  ///< AVX-512 IFMA, VBMI, VBMI2, VPOPCNTDQ and GFNI on top: Ice Lake, Zen 4 and later
  // The rest decides what is faster, never what comes out.

  /// Two operations of 512 bits a cycle, not four, so that shuffles take the ports of sums: Intel's processors, and
  /// AMD's before Zen 5, by their families (what processors say themselves, CPUID Fn8000_001A, hypervisors hide).
  bool avx512_on_two_ports = false;
  /// What is prefetched into the first-level cache does not hold up those who read from it: AMD's with two such ports.
  /// (BLAKE3 of 256 MiB, make bench, Zen 4: 7.3 GB/s, and 6.9 by the second-level cache; Xeon 6: no faster.)
  bool near_prefetches = false;
};

const CpuFeatures& cpu_features();

}  // namespace wdelta
