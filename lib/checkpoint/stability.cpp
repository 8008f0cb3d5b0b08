// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/stability.hpp"

#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <thread>

namespace wdelta {

namespace {

// Nothing while it is plainly unfinished.
std::optional<Checkpoint> open_if_complete(const std::filesystem::path& path, const PathFilter& filter) try {
  Checkpoint checkpoint = Checkpoint::open(path, Shards::required, filter);
  const auto is_cut = [](const CheckpointFile& file) { return is_weights(file.path) && is_cut_short(*file.open()); };
  if (std::ranges::any_of(checkpoint.files(), is_cut)) return std::nullopt;
  return checkpoint;
} catch (const Error& error) {
  // A file that vanishes between two looks, or a shard that is not there yet.
  if (error.fault() != Fault::local && !(error.fault() == Fault::not_found && std::filesystem::exists(path))) throw;
  return std::nullopt;
}

}  // namespace

Checkpoint open_when_stable(const std::filesystem::path& path, const PathFilter& filter, std::chrono::seconds still,
                            const Execution& execution) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds k_between_looks{200};
  std::optional<Checkpoint> seen = open_if_complete(path, filter);
  Clock::time_point since = Clock::now();
  execution.progress->note(fmt::format("waiting until {} has not changed for {} s", path.string(), still.count()));
  while (!seen || Clock::now() - since < still) {
    execution.check_stop();
    std::this_thread::sleep_for(k_between_looks);
    std::optional<Checkpoint> now = open_if_complete(path, filter);
    if (!seen || !now || !now->has_stamps_of(*seen)) since = Clock::now();
    seen = std::move(now);
  }
  return std::move(*seen);
}

}  // namespace wdelta
