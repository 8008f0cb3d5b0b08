// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include "base/cpu.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace wdelta {
namespace {

// Best first. A new engine is one kernel file and one row here.
constexpr Engine k_engines[] = {
    {"avx512", "AVX-512 F, BW, CD, DQ, VL, VBMI, VBMI2, VPOPCNTDQ and GFNI", &k_kernels_avx512,
     [] { return cpu_features().avx512_vbmi2; }},
    {"avx2", "AVX2, BMI1 and BMI2", &k_kernels_avx2, [] { return cpu_features().avx2; }},
    {"scalar", "nothing", &k_kernels_scalar, [] { return true; }},
};

std::string known_names() {
  std::string names = "auto";
  for (const Engine& engine : k_engines) names.append(", ").append(engine.name);
  return names;
}

}  // namespace

const BlockKernels& Engine::block(ElementType type) const {
  return kernels->block[std::countr_zero(type.width_bytes)][static_cast<std::size_t>(type.kind)];
}

const ClassedKernels& Engine::classed(ElementType type) const {
  return kernels->classed[std::countr_zero(type.width_bytes)][static_cast<std::size_t>(type.kind)];
}

std::span<const Engine> engines() { return k_engines; }

const Engine& best_engine() {
  return *std::ranges::find_if(k_engines, [](const Engine& engine) { return engine.usable(); });
}

const Engine& engine_named(std::string_view name) {
  if (name == "auto") return best_engine();
  const auto* engine = std::ranges::find(k_engines, name, &Engine::name);
  if (engine == std::end(k_engines)) {
    throw Error(Fault::usage, std::string(name), "no such engine", "known: " + known_names());
  }
  if (!engine->usable()) {
    throw Error(Fault::unsupported, std::string(name),
                "this engine cannot run here: it needs " + std::string(engine->needs), "leave the choice to auto");
  }
  return *engine;
}

}  // namespace wdelta
