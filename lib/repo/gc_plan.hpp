// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/repository.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

inline constexpr const char* k_gc_plan_key = "gc/plan.json";

/// What gc found that nothing needs, and when: wdelta-repository(5), "Garbage".
struct GcPlan {
  std::int64_t time_s = 0;  ///< by the store's clock
  std::vector<std::string> keys;

  bool operator==(const GcPlan&) const = default;
};

std::string to_text(const GcPlan& plan);
/// Throws corrupt or unsupported, naming `object`.
GcPlan gc_plan_from(std::string_view text, const std::string& object);
/// For whoever gives a name to a commit that nothing named, as of a push that lost its race: takes away the plan of gc
/// if it names the commit, and returns whether it did.
bool spare_from_plan(const Repository& repository, const Digest& commit);
/// Behind that, and behind the name: a gc that was at work may have taken some of it all the same. Throws corrupt then.
void require_spared(const Repository& repository, const Digest& commit);
/// Nullopt when the store has none.
std::optional<GcPlan> read_gc_plan(const Store& store);

}  // namespace wdelta
