// SPDX-License-Identifier: Apache-2.0
#include "stage_stats.hpp"

#include "base/json.hpp"
#include "context.hpp"
#include "format.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

namespace {

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void add_stage_option(CLI::App& app, Context& context) {
  declare_flag(
      app, "--stats", [&context] { context.stage_stats.emplace(); },
      "Say on standard error what time and bytes each stage took, all threads together");
}

double StageStats::seconds() const { return seconds_of(std::chrono::steady_clock::now() - begun); }

void StageStats::add_to(Json& document) const {
  document["stages"] = Json::array();
  for (std::size_t i = 0; i < k_stage_names.size(); ++i) {
    const StageClock::Total total = clock.total(static_cast<Stage>(i));
    document["stages"].push_back(
        {{"stage", k_stage_names[i]}, {"seconds", seconds_of(total.time)}, {"bytes", total.bytes}});
  }
  document["seconds"] = seconds();
}

std::string StageStats::text() const {
  using enum Table::Align;
  Table table({{"stage", left}, {"seconds", right}, {"bytes", right}, {"GB/s", right}});
  for (std::size_t i = 0; i < k_stage_names.size(); ++i) {
    const StageClock::Total total = clock.total(static_cast<Stage>(i));
    const double rate = total.time.count() > 0 ? static_cast<double>(total.bytes) / 1e9 / seconds_of(total.time) : 0;
    table.add({std::string(k_stage_names[i]), fmt::format("{:.3f}", seconds_of(total.time)), size_text(total.bytes),
               total.bytes > 0 ? fmt::format("{:.1f}", rate) : ""});
  }
  return table.text() + fmt::format("wall: {:.3f} s\n", seconds());
}

}  // namespace wdelta::cmd
