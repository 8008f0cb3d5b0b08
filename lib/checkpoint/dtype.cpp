// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dtype.hpp"

namespace wdelta {

namespace {
constexpr Dtype k_dtypes[] = {
    {"BF16", 16, 2, true},    {"F16", 16, 2, true},     {"F32", 32, 4, true},        {"F64", 64, 8, true},
    {"F8_E4M3", 8, 1, true},  {"F8_E5M2", 8, 1, true},  {"F8_E4M3FNUZ", 8, 1, true}, {"F8_E5M2FNUZ", 8, 1, true},
    {"I8", 8, 1, false},      {"I16", 16, 2, false},    {"I32", 32, 4, false},       {"I64", 64, 8, false},
    {"U8", 8, 1, false},      {"U16", 16, 2, false},    {"U32", 32, 4, false},       {"U64", 64, 8, false},
    {"BOOL", 8, 1, false},    {"F8_E8M0", 8, 1, false}, {"C64", 64, 8, false},       {"F4", 4, 1, false},
    {"F6_E2M3", 6, 1, false}, {"F6_E3M2", 6, 1, false},
};
}  // namespace

const Dtype* dtype_named(std::string_view name) {
  for (const Dtype& dtype : k_dtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

std::optional<std::uint64_t> bits_of(const Dtype& dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::uint64_t{dtype.bits}, &bits)) return std::nullopt;
  return bits;
}

}  // namespace wdelta
