// SPDX-License-Identifier: Apache-2.0
// What an entry of a branch or tag says: wdelta-repository(5), "Branches and tags".
#pragma once

#include "base/digest.hpp"
#include "store/store.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

/// Digits of the id that a writer draws for each entry.
inline constexpr unsigned k_write_digits = 32;
/// Digits of an entry's number.
inline constexpr unsigned k_number_digits = 16;
inline constexpr std::uint64_t k_last_entry_number = 9'999'999'999'999'999;

struct RefEntry {
  std::optional<Digest> commit;  ///< nothing: the branch or tag was deleted
  std::string write;
  std::string before;  ///< of a contested entry: the write id of the one that it builds on; else empty
};

std::string to_text(const RefEntry& entry);
/// Throws corrupt or unsupported, naming `key`. Entries are never removed: one that is not there is corrupt.
RefEntry read_ref_entry(const Store& store, const std::string& key);

/// Whether `text` is the number of an entry, as keys have it.
bool is_entry_number(std::string_view text);
/// The number; of that form.
std::uint64_t parse_entry_number(std::string_view text);

}  // namespace wdelta
