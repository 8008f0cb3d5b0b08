// SPDX-License-Identifier: Apache-2.0
#pragma once

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
/// Nullopt when the store has none.
std::optional<GcPlan> read_gc_plan(const Store& store);

}  // namespace wdelta
