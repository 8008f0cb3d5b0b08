// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace wdelta {

/// A shared library that is loaded when a network is asked for, so that commands on directories start without it; it
/// stays until the process ends.
class LoadedLibrary {
 public:
  /// Throws unsupported, naming the library, with `hint`, which must outlive it.
  LoadedLibrary(const char* name, const char* hint);

  /// The same where it has no such function.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;
  [[noreturn]] void refuse() const;

  const char* name_;
  const char* hint_;
  void* library_;
};

}  // namespace wdelta
