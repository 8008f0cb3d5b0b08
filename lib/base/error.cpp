// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace wdelta {

Error system_error(int code, std::string object, const std::string& what) {
  const Fault fault = code == ENOENT ? Fault::not_found : Fault::local;
  std::string hint;
  if (code == ENOSPC || code == EDQUOT)
    hint = "free some space, or files (df -i); nothing half-written was left behind";
  if (code == EMFILE || code == ENFILE) hint = "allow more open files (ulimit -n, ulimit -Hn)";
  if (code == ESTALE) hint = "the file server no longer has it: it was replaced or removed meanwhile; run this again";
  return Error(fault, std::move(object), what + ": " + std::generic_category().message(code), hint);
}

}  // namespace wdelta
