// SPDX-License-Identifier: Apache-2.0
#include "base/cores.hpp"

#include "base/execution.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace wdelta {

using testing::ScratchDirectory;

TEST_CASE("no more threads work by default than there are processors that the caller may run on") {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof(all), &all) == 0);
  unsigned first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= unsigned(CPU_COUNT(&all)));
  CHECK(default_threads().all_along == usable_cores());

  bool is_bound = false;
  unsigned cores = 0, threads = 0;
  std::jthread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    is_bound = ::sched_setaffinity(0, sizeof(one), &one) == 0;
    cores = usable_cores();
    threads = default_threads().all_along;
  }).join();
  REQUIRE(is_bound);
  CHECK(cores == 1);
  CHECK(threads == 1);
}

TEST_CASE("a control group's quota of processor time is so many processors, the least of its own and those above") {
  struct Case {
    const char* what;
    std::vector<std::pair<std::string, std::string>> files;
    std::optional<unsigned> cores;
  };
  const std::string v2 = "0::/pod/box\n";
  const std::string v1 = "9:name=systemd:/pod\n5:cpu,cpuacct:/pod/box\n2:cpuset:/pod\n0::/\n";
  const std::string self = "proc/self/cgroup", unified = "sys/fs/cgroup/", both = "sys/fs/cgroup/cpu,cpuacct/",
                    alone = "sys/fs/cgroup/cpu/";
  for (const Case& c : {
           Case{"no control groups", {}, std::nullopt},
           Case{"no quota", {{self, v2}, {unified + "pod/box/cpu.max", "max 100000\n"}}, std::nullopt},
           Case{"whole", {{self, v2}, {unified + "pod/box/cpu.max", "400000 100000\n"}}, 4},
           Case{"rounded up", {{self, v2}, {unified + "pod/box/cpu.max", "150000 100000\n"}}, 2},
           Case{"less than one", {{self, v2}, {unified + "pod/box/cpu.max", "1000 100000\n"}}, 1},
           Case{"another period", {{self, v2}, {unified + "pod/box/cpu.max", "150000 50000\n"}}, 3},
           Case{"the one above has less",
                {{self, v2},
                 {unified + "pod/box/cpu.max", "400000 100000\n"},
                 {unified + "pod/cpu.max", "200000 100000\n"}},
                2},
           Case{"the one above has more",
                {{self, v2},
                 {unified + "pod/box/cpu.max", "400000 100000\n"},
                 {unified + "pod/cpu.max", "max 100000\n"}},
                4},
           Case{"a container that sees its own as the topmost",
                {{self, v2}, {unified + "cpu.max", "300000 100000\n"}},
                3},
           Case{"in the topmost", {{self, "0::/\n"}, {unified + "cpu.max", "300000 100000\n"}}, 3},
           Case{"outside of what is seen", {{self, "0::/../other\n"}, {unified + "cpu.max", "300000 100000\n"}}, 3},
           Case{"version 1",
                {{self, v1},
                 {both + "pod/box/cpu.cfs_quota_us", "250000\n"},
                 {both + "pod/box/cpu.cfs_period_us", "100000\n"}},
                3},
           Case{"version 1, mounted by one name",
                {{self, v1},
                 {alone + "pod/cpu.cfs_quota_us", "250000\n"},
                 {alone + "pod/cpu.cfs_period_us", "100000\n"}},
                3},
           Case{"version 1, no quota",
                {{self, v1},
                 {both + "pod/box/cpu.cfs_quota_us", "-1\n"},
                 {both + "pod/box/cpu.cfs_period_us", "100000\n"}},
                std::nullopt},
           Case{"version 1, another controller's",
                {{self, "5:cpuacct:/\n"},
                 {unified + "cpuacct/cpu.cfs_quota_us", "1\n"},
                 {unified + "cpuacct/cpu.cfs_period_us", "1\n"}},
                std::nullopt},
           Case{"no period", {{self, v2}, {unified + "cpu.max", "300000\n"}}, std::nullopt},
           Case{"a period of nothing", {{self, v2}, {unified + "cpu.max", "300000 0\n"}}, std::nullopt},
           Case{"no number", {{self, v2}, {unified + "cpu.max", "many 100000\n"}}, std::nullopt},
           Case{
               "larger than any number", {{self, v2}, {unified + "cpu.max", "99999999999999999999 1\n"}}, std::nullopt},
           Case{"more than fit", {{self, v2}, {unified + "cpu.max", "9000000000000000000 1\n"}}, 4'294'967'295U},
           Case{"no line of it", {{self, "\n:\n0:\n5:cpu\n"}}, std::nullopt},
       }) {
    CAPTURE(c.what);
    const ScratchDirectory root;
    for (const auto& [name, content] : c.files) testing::put_file(root / name, content);
    CHECK(cores_by_quota(root.path()) == c.cores);
  }
}

}  // namespace wdelta
