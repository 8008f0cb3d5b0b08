// SPDX-License-Identifier: Apache-2.0
#include "delta/container.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace wdelta {

namespace {

// The only value in a delta's header that is a string behind the key "digest" is the one in __metadata__: the values of
// entries are objects, and quotes within the other strings of __metadata__ are escaped.
std::span<std::uint8_t> find_digits(std::span<std::uint8_t> front, const std::string& hex) {
  const std::string pattern = "\"digest\":\"" + hex + "\"";
  const auto found = std::search(front.begin(), front.end(), pattern.begin(), pattern.end());
  if (found == front.end()) return {};
  return {found + static_cast<std::ptrdiff_t>(pattern.size() - 65), 64};
}

}  // namespace

Digest seal_front(std::span<std::uint8_t> front) {
  const auto digits = find_digits(front, std::string(64, '0'));
  if (digits.empty()) throw Error(Fault::internal, "", "delta header without a place for its digest");
  const Digest digest = blake3(front);
  std::ranges::copy(digest.hex(), digits.begin());
  return digest;
}

bool is_sealed(std::span<const std::uint8_t> front, const Digest& digest) {
  std::vector<std::uint8_t> copy(front.begin(), front.end());
  const auto digits = find_digits(copy, digest.hex());
  if (digits.empty()) return false;
  std::ranges::fill(digits, std::uint8_t{'0'});
  return blake3(copy) == digest;
}

}  // namespace wdelta
