// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/ref_entry.hpp"
#include "repo/refs.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace wdelta {

/// Checks the entries of branches or tags one after the other, in the order of their keys.
class EntryCheck {
 public:
  explicit EntryCheck(const Refs& refs) : refs_(&refs) {}

  /// Returns the commit that the entry names, which read() gets; nothing for a deletion. Throws what that throws, and
  /// corrupt when the key is none of an entry, or the one before it is not there.
  using Read = std::function<RefEntry()>;
  std::optional<Digest> check(const std::string& key, const Read& read);
  std::optional<Digest> check(const std::string& key) {
    return check(key, [&] { return read_ref_entry(refs_->store(), key); });
  }

 private:
  std::optional<Digest> check_numbered(const std::string& folder, const std::string& last_part, const std::string& key,
                                       const Read& read);
  std::optional<Digest> check_contested(const std::string& folder, const std::string& last_part, const std::string& key,
                                        const Read& read);

  const Refs* refs_;
  std::map<std::string, std::uint64_t> last_number_;                   // by everything before the number
  std::map<std::string, std::pair<std::uint64_t, std::string>> seen_;  // number and folder by write id
};

}  // namespace wdelta
