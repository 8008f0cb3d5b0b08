// SPDX-License-Identifier: Apache-2.0
// What --stats says: where the time of a command went.
#pragma once

#include "base/json_fwd.hpp"
#include "base/stage_clock.hpp"
#include "declare.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace wdelta::cmd {

/// Adds --stats to a command whose work goes through the stages.
void add_stage_option(CLI::App& app, Context& context);

/// The clock of one run of the program.
struct StageStats {
  StageClock clock;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  double seconds() const;
  /// Adds the members "stages" and "seconds".
  void add_to(Json& document) const;
  /// A table for people.
  std::string text() const;
};

}  // namespace wdelta::cmd
