// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace wdelta {

/// The instruction sets that this processor has and this operating system saves on a context switch.
struct CpuFeatures {
  bool avx2 = false;          ///< AVX2, BMI1, BMI2, POPCNT
  bool avx512 = false;        ///< AVX-512 F, BW, DQ, VL
  bool avx512_vbmi2 = false;  ///< AVX-512 IFMA, VBMI, VBMI2, VPOPCNTDQ and GFNI on top: Ice Lake, Zen 4 and later
};

CpuFeatures cpu_features();

}  // namespace wdelta
