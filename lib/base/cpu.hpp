// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace wdelta {

/// The instruction sets that this processor has and this operating system saves on a context switch.
struct CpuFeatures {
  bool avx2 = false;          ///< AVX2, BMI1, BMI2, POPCNT
  bool avx512 = false;        ///< AVX-512 F, BW, DQ, VL
  bool avx512_vbmi2 = false;  ///< AVX-512 IFMA, VBMI, VBMI2, VPOPCNTDQ and GFNI on top: Ice Lake, Zen 4 and later
  /// Four 512-bit operations begin in each cycle, shuffles among them: Zen 5, on the desktop and the server. Processors
  /// say so themselves (CPUID Fn8000_001A, FP512), but hypervisors hide it, so this goes by the family, mobile Zen 5
  /// included. It decides what is faster, never what comes out.
  bool avx512_wide = false;
};

CpuFeatures cpu_features();

}  // namespace wdelta
