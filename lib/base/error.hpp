// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace wdelta {

/// What kind of thing went wrong. user/exit_codes.cpp maps each to the exit status of the program.
enum class Fault {
  internal,       ///< a bug of ours
  usage,          ///< the caller asked for something that makes no sense
  local,          ///< a local file or device failed: permission, space, vanished, changed while read
  not_found,      ///< the thing named does not exist
  corrupt,        ///< bytes are not what they claim to be
  base_mismatch,  ///< a delta was offered a base it was not made from
  conflict,       ///< someone else was first
  network,        ///< a remote store failed
  unsupported,    ///< this build, store, file system or processor cannot do it
  verification,   ///< a check that was asked for found a difference
  interrupted,    ///< the stop token fired
};

/// The one exception type of the library. Reads as "object: what", e.g. "model.safetensors: header: cut at byte 12".
class Error : public std::runtime_error {
 public:
  /// Of an object or a text that is longer than two paths can be, as names in files may be, the middle is left out.
  Error(Fault fault, std::string object, std::string what, std::string hint = {});

  Fault fault() const { return fault_; }
  /// The file, tensor or key that the error is about.
  const std::string& object() const { return object_; }
  /// A way out for the user, or empty.
  const std::string& hint() const { return hint_; }

 private:
  Fault fault_;
  std::string object_;
  std::string hint_;
};

/// An Error about a failed system call: "object: what: strerror(code)". ENOENT is not_found, all others local.
Error system_error(int code, std::string object, const std::string& what);

}  // namespace wdelta
