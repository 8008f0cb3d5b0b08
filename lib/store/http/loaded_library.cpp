// SPDX-License-Identifier: Apache-2.0
#include "store/http/loaded_library.hpp"

#include "base/error.hpp"

#include <dlfcn.h>

namespace wdelta {

LoadedLibrary::LoadedLibrary(const char* name, const char* hint)
    : name_(name), hint_(hint), library_(::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
  if (library_ == nullptr) refuse();
}

void* LoadedLibrary::address_of(const char* name) const {
  void* const address = ::dlsym(library_, name);
  if (address == nullptr) refuse();
  return address;
}

void LoadedLibrary::refuse() const {
  const char* const why = ::dlerror();
  throw Error(Fault::unsupported, name_, why != nullptr ? why : "cannot be loaded", hint_);
}

}  // namespace wdelta
