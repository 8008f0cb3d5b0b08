// SPDX-License-Identifier: Apache-2.0
// A plan of gc, its seal put right: what is taken can be written and read again.
#include "base/error.hpp"
#include "fuzz/reseal.hpp"
#include "repo/gc_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  try {
    const GcPlan plan = gc_plan_from(fuzz::resealed_text(bytes, size_bytes), "input");
    if (plan.time_s < 0) std::abort();
    const std::string text = to_text(plan);
    if (to_text(gc_plan_from(text, "again")) != text) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
