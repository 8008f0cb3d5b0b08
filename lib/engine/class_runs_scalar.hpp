// SPDX-License-Identifier: Apache-2.0
// Elements of a block in runs short enough that bytes count them, in loops that compilers make vectors of. For kernel
// files alone, each of which gets a copy of its own.
#pragma once

#include "engine/kernel_elements.hpp"

#include <cstdint>

namespace wdelta {
namespace {

constexpr std::uint32_t k_classes = 16;
constexpr std::uint32_t k_run = 128;

/// A byte for each class. It stays in a register, where a table of counts would make each element wait for the last of
/// its class.
using EachClass = std::uint8_t __attribute__((vector_size(k_classes)));

/// How many elements of a run each class has.
class ClassCensus {
 public:
  explicit ClassCensus(const std::uint8_t (&class_of)[256]) {
    for (std::uint32_t context = 0; context < 256; ++context) of_context_[context][class_of[context]] = 1;
  }
  void count(const std::uint8_t* contexts, std::uint32_t length, std::uint8_t (&members)[k_classes]) const {
    EachClass sum = {};
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < length; ++i) sum += of_context_[contexts[i]];
    __builtin_memcpy(members, &sum, sizeof(sum));
  }

 private:
  EachClass of_context_[256] = {};
};

template <class T, Order order>
void list_contexts(const char* elements, std::uint32_t length, std::uint8_t* contexts) {
  const auto list = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) contexts[i] = context_of<T, order>(load<T>(elements, i));
  };
  // Compilers make vectors of a loop whose length they know.
  length == k_run ? list(k_run) : list(length);
}

/// The contexts of one class.
struct ContextRange {
  std::uint8_t first;
  std::uint8_t span;  ///< to the last

  bool has(std::uint8_t context) const { return static_cast<std::uint8_t>(context - first) <= span; }
};

/// Those of class k, which has some.
[[maybe_unused]] ContextRange contexts_of_class(const std::uint8_t* bounds, std::uint32_t bound_count,
                                                std::uint32_t k) {
  const std::uint32_t first = k == 0 ? 0 : bounds[k - 1];
  const std::uint32_t end = k == bound_count ? 256 : bounds[k];
  return {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(end - 1 - first)};
}

}  // namespace
}  // namespace wdelta
