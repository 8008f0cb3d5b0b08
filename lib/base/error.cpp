// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

namespace wdelta {

namespace {

std::string in_short(std::string text) {
  constexpr std::size_t k_most_bytes = 2 * PATH_MAX;
  if (text.size() <= k_most_bytes) return text;
  // No byte of UTF-8 that goes on with what another began is parted from it.
  const auto goes_on = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  std::size_t begin = k_most_bytes / 2;
  std::size_t end = text.size() - k_most_bytes / 2;
  while (begin > 0 && goes_on(begin)) --begin;
  while (end < text.size() && goes_on(end)) ++end;
  return text.replace(begin, end - begin, " ... ");
}

}  // namespace

Error::Error(Fault fault, std::string object, std::string what, std::string hint)
    : std::runtime_error(in_short(std::move(what))),
      fault_(fault),
      object_(in_short(std::move(object))),
      hint_(std::move(hint)) {}

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
