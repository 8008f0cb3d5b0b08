// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/stability.hpp"

#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace wdelta {

namespace {

struct Look {
  std::optional<Checkpoint> checkpoint;
  std::optional<Error> in_the_way;  // of opening it
  std::optional<Error> unfinished;  // what says that it is being written

  bool is_like(const Look& other) const {
    if (checkpoint && other.checkpoint) return checkpoint->has_stamps_of(*other.checkpoint);
    return in_the_way && other.in_the_way && in_the_way->object() == other.in_the_way->object() &&
           std::string_view(in_the_way->what()) == other.in_the_way->what();
  }
};

std::optional<Error> unfinished_file_of(const Checkpoint& checkpoint) {
  if (auto missing = checkpoint.missing_shard()) return missing;
  for (const CheckpointFile& file : checkpoint.files()) {
    if (is_weights(file.path) && is_cut_short(*file.open()))
      return Error(Fault::local, file.path, "is shorter than its header says");
  }
  return std::nullopt;
}

Look look_at(const std::filesystem::path& path, const PathFilter& filter) try {
  Look look{Checkpoint::open(path, Shards::any, filter), {}, {}};
  look.unfinished = unfinished_file_of(*look.checkpoint);
  if (!look.unfinished) look.checkpoint = Checkpoint::open(path, Shards::required, filter);
  return look;
} catch (const Error& error) {
  if (error.fault() == Fault::not_found && !std::filesystem::exists(path)) throw;
  return {{}, error, {}};  // a file that vanished between two looks, an index that is half written
}

}  // namespace

Checkpoint open_when_stable(const std::filesystem::path& path, const PathFilter& filter, std::chrono::seconds still,
                            const Execution& execution) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds k_between_looks{200};
  Look seen = look_at(path, filter);
  Clock::time_point since = Clock::now();
  execution.progress->note(fmt::format("waiting until {} has not changed for {} s", path.string(), still.count()));
  bool is_said = false;
  for (;;) {
    if (Clock::now() - since >= still) {
      if (seen.in_the_way) throw Error(*seen.in_the_way);
      if (!seen.unfinished) return std::move(*seen.checkpoint);
      if (!std::exchange(is_said, true))
        execution.progress->note(
            fmt::format("waiting for more: {} {}", seen.unfinished->object(), seen.unfinished->what()));
    }
    execution.check_stop();
    std::this_thread::sleep_for(k_between_looks);
    Look now = look_at(path, filter);
    if (!now.is_like(seen)) since = Clock::now();
    seen = std::move(now);
  }
}

}  // namespace wdelta
