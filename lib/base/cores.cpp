// SPDX-License-Identifier: Apache-2.0
#include "base/cores.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sched.h>
#include <string>
#include <string_view>
#include <thread>

namespace wdelta {

namespace {

// 0 where the system does not say.
unsigned cores_by_affinity() {
  // The kernel refuses a mask shorter than its own, which may be for more processors than cpu_set_t has.
  constexpr int k_most = 1 << 16;
  for (int processors = CPU_SETSIZE; processors <= k_most; processors *= 2) {
    const std::size_t size_bytes = CPU_ALLOC_SIZE(processors);
    cpu_set_t* const mask = CPU_ALLOC(processors);
    const bool is_known = mask != nullptr && ::sched_getaffinity(0, size_bytes, mask) == 0;
    const int count = is_known ? CPU_COUNT_S(size_bytes, mask) : 0;
    CPU_FREE(mask);
    if (is_known) return static_cast<unsigned>(count);
  }
  return 0;
}

std::optional<unsigned> least(std::optional<unsigned> a, std::optional<unsigned> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// Of one group, by the files that one of the versions has. "max", -1 and what is no number are no limit.
std::optional<unsigned> cores_of_group(const std::filesystem::path& group) {
  std::int64_t quota = 0, period = 0;
  std::ifstream both(group / "cpu.max");
  if (!(both >> quota >> period)) {
    std::ifstream one(group / "cpu.cfs_quota_us"), other(group / "cpu.cfs_period_us");
    if (!(one >> quota) || !(other >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  const std::int64_t cores = quota / period + (quota % period != 0);
  return static_cast<unsigned>(std::min<std::int64_t>(cores, std::numeric_limits<unsigned>::max()));
}

// And of those above, up to where they are mounted. A container may see its own there, under the name that its host
// knows it by.
std::optional<unsigned> cores_of_groups(const std::filesystem::path& mount, const std::filesystem::path& name) {
  std::optional<unsigned> cores = cores_of_group(mount);
  std::filesystem::path group = mount;
  for (const std::filesystem::path& part : name.relative_path()) {
    group /= part;
    cores = least(cores, cores_of_group(group));
  }
  return cores;
}

bool has_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
}

}  // namespace

std::optional<unsigned> cores_by_quota(const std::filesystem::path& root) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  std::optional<unsigned> cores;
  std::ifstream groups(root / "proc/self/cgroup");
  // cgroups(7): "0::/name" of version 2, "5:cpu,cpuacct:/name" of version 1, which is mounted by all or by one of
  // these.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), name = line.substr(second + 1);
    if (controllers.empty()) cores = least(cores, cores_of_groups(mounts, name));
    if (!has_cpu(controllers)) continue;
    for (const std::string& mounted : {controllers, std::string("cpu")})
      cores = least(cores, cores_of_groups(mounts / mounted, name));
  }
  return cores;
}

unsigned usable_cores() {
  unsigned cores = cores_by_affinity();
  if (cores == 0) cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores, cores_by_quota("/").value_or(cores));
}

}  // namespace wdelta
