// SPDX-License-Identifier: Apache-2.0
// Where C begins: what is thrown becomes a status and texts, and structs of another version of the header are taken and
// given as far as both sides know them.
#pragma once

#include "base/error.hpp"
#include "include/wdelta.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace wdelta {

wdelta_status tell_done(wdelta_error* error) noexcept;
/// Of the exception that is being handled.
wdelta_status tell_failure(wdelta_error* error) noexcept;

template <typename Body>
wdelta_status guarded(wdelta_error* error, Body body) noexcept {
  try {
    body();
    return tell_done(error);
  } catch (...) {
    return tell_failure(error);
  }
}

/// Throws usage unless `given` is not null; `what` names it.
void require(const void* given, std::string_view what);

/// A struct that a caller gave, whose size it knew at another length: what it did not know is zero. Null is all zero.
/// Throws usage where the size is not set, unsupported where something is asked for that this library does not know.
void take_sized(void* to, std::size_t known_bytes, const void* given);
template <typename Struct>
Struct taken(const Struct* given) {
  Struct copy{};
  take_sized(&copy, sizeof copy, given);
  copy.struct_size = sizeof copy;
  return copy;
}

/// Tells a caller as much of `told` as it has room for.
template <typename Struct>
void give(Struct* to, Struct told) {
  require(to, "the struct to be told in");
  if (to->struct_size < sizeof(std::size_t)) throw Error(Fault::usage, "struct_size", "is not set");
  told.struct_size = to->struct_size;
  std::memcpy(to, &told, std::min(to->struct_size, sizeof told));
}

}  // namespace wdelta
