// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace wdelta {

/// How many processors the calling thread may use at a time, at least one: as many as its affinity mask has, which
/// containers, job schedulers and taskset(1) set, and no more than its control groups get time for.
unsigned usable_cores();

/// How many that time is worth, rounded up: the least quota over its period, of the groups that /proc/self/cgroup names
/// and those above them as far as they can be seen, in version 2 (cpu.max) or 1 (cpu.cfs_quota_us); Linux,
/// Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst. Nothing where none is set. `root` is where
/// proc and sys lie.
std::optional<unsigned> cores_by_quota(const std::filesystem::path& root);

}  // namespace wdelta
