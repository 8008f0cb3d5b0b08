// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"

#include <span>

namespace wdelta {

struct ExitCode {
  int code;
  const char* meaning;
};

/// Every exit status of the program; `wdelta help exit-codes` prints it and the man page must say the same.
std::span<const ExitCode> exit_codes();
int exit_code_of(Fault fault);

inline constexpr int k_exit_differences = 10;

}  // namespace wdelta
