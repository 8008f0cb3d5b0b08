// SPDX-License-Identifier: Apache-2.0
#include "repo/gc_plan.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

namespace wdelta {

namespace {

constexpr const char* k_plan_format = "wdelta-gc-plan";
constexpr std::uint64_t k_longest_plan = std::uint64_t{1} << 30;
constexpr std::uint64_t k_end_of_time_s = std::uint64_t{1} << 40;

}  // namespace

std::string to_text(const GcPlan& plan) {
  return seal({{"format", k_plan_format}, {"version", 1}, {"time", plan.time_s}, {"keys", plan.keys}});
}

GcPlan gc_plan_from(std::string_view text, const std::string& object) {
  const ParsedJson json = open_sealed(text, k_plan_format, object);
  GcPlan plan;
  const std::uint64_t time_s = size_member(json, "time", object);
  if (time_s > k_end_of_time_s) throw Error(Fault::corrupt, object, "\"time\" is beyond all clocks");
  plan.time_s = static_cast<std::int64_t>(time_s);
  for (const ParsedJson& key : array_member(json, "keys", object)) {
    if (!key.is_string()) throw Error(Fault::corrupt, object, "\"keys\" holds something that is no key");
    plan.keys.push_back(key.get<std::string>());
  }
  return plan;
}

std::optional<GcPlan> read_gc_plan(const Store& store) {
  const auto text = get_text(store, k_gc_plan_key, k_longest_plan);
  if (!text) return std::nullopt;
  try {
    return gc_plan_from(*text, k_gc_plan_key);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    throw Error(Fault::corrupt, error.object(), error.what(), "remove it: the next wdelta gc makes another");
  }
}

}  // namespace wdelta
