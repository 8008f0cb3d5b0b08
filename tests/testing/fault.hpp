// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <optional>
#include <string>

namespace wdelta::testing {

/// The fault of the Error that `body` throws, or nothing when it throws nothing. Whatever is no Error goes on upwards
/// and fails the test: the library throws nothing else.
template <typename Body>
std::optional<Fault> fault_of(Body body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error.fault();
  }
}

/// "object: what" of the Error that `body` throws, or an empty string.
template <typename Body>
std::string message_of(Body body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return error.object() + ": " + error.what();
  }
}

inline std::string name_of(Fault fault) {
  constexpr const char* k_names[] = {"internal",    "usage",         "local",      "not_found",
                                     "corrupt",     "base_mismatch", "conflict",   "network",
                                     "unsupported", "verification",  "interrupted"};
  return k_names[static_cast<int>(fault)];
}

}  // namespace wdelta::testing

template <>
struct doctest::StringMaker<std::optional<wdelta::Fault>> {
  static String convert(const std::optional<wdelta::Fault>& fault) {
    return fault ? wdelta::testing::name_of(*fault).c_str() : "no error";
  }
};
