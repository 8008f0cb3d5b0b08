// SPDX-License-Identifier: Apache-2.0
#include "user/exit_codes.hpp"

namespace wdelta {

namespace {
constexpr ExitCode k_exit_codes[] = {
    {0, "done"},
    {1, "internal error"},
    {2, "usage"},
    {3, "a local file or device failed"},
    {4, "not found"},
    {5, "corrupt: bytes are not what they claim to be"},
    {6, "base mismatch: a delta was given another base than it was made from"},
    {7, "conflict: someone else was first"},
    {8, "network"},
    {9, "unsupported here"},
    {10, "verification failed, or diff --exit-code found differences"},
    {129, "hung up, nothing half-done left"},
    {130, "interrupted, nothing half-done left"},
    {143, "terminated, nothing half-done left"},
};
}  // namespace

std::span<const ExitCode> exit_codes() { return k_exit_codes; }

int exit_code_of(Fault fault) {
  switch (fault) {
    case Fault::internal:
      return 1;
    case Fault::usage:
      return 2;
    case Fault::local:
      return 3;
    case Fault::not_found:
      return 4;
    case Fault::corrupt:
      return 5;
    case Fault::base_mismatch:
      return 6;
    case Fault::conflict:
      return 7;
    case Fault::network:
      return 8;
    case Fault::unsupported:
      return 9;
    case Fault::verification:
      return 10;
    case Fault::interrupted:
      return 130;
  }
  return 1;
}

}  // namespace wdelta
