// SPDX-License-Identifier: Apache-2.0
// Branches and tags: wdelta-repository(5), "Branches and tags".
#pragma once

#include "base/digest.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

enum class RefKind { branch, tag };

/// Where a branch or tag stands.
struct RefState {
  std::uint64_t number = 0;  ///< of its newest entry; 0 when it has none
  std::optional<Digest> commit;
};

/// Why `name` may not be the name of a branch or tag, or null when it may.
const char* why_not_a_ref_name(std::string_view name);

/// Reads where it stands. Throws corrupt when its newest entry is damaged.
RefState read_ref(const Store& store, RefKind kind, const std::string& name);
/// All branches or tags there are, by name.
std::map<std::string, RefState> list_refs(const Store& store, RefKind kind);
/// Every commit that an entry of any branch or tag names, old entries included.
std::vector<Digest> all_ref_targets(const Store& store, RefKind kind);
/// Moves it from `before` to `commit`. Throws conflict when someone else moved it first.
void move_ref(Store& store, RefKind kind, const std::string& name, const RefState& before, const Digest& commit);
/// Checks every entry; throws for the first bad one.
void check_ref_entry(const Store& store, const std::string& key);

}  // namespace wdelta
