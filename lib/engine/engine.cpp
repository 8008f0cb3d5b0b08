// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include "base/cpu.hpp"
#include "base/error.hpp"
#include "engine/device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace wdelta {
namespace {

// Best first. A new engine is one kernel file and one row here. One with a device has the kernels of the best processor
// beside it.
constexpr Engine k_engines[] = {
    {"cuda", "an NVIDIA graphics processor and its driver", nullptr, [] { return cuda_device().device != nullptr; },
     cuda_device},
    {"avx512", "AVX-512 F, BW, CD, DQ, VL, IFMA, VBMI, VBMI2, VPOPCNTDQ and GFNI", &k_kernels_avx512,
     [] { return cpu_features().avx512_vbmi2; }},
    {"avx2", "AVX2, BMI1 and BMI2", &k_kernels_avx2, [] { return cpu_features().avx2; }},
    {"scalar", "nothing", &k_kernels_scalar, [] { return true; }},
};

const Engine& best_of(std::span<const Engine> engines) {
  return *std::ranges::find_if(engines,
                               [](const Engine& engine) { return engine.find_device == nullptr && engine.usable(); });
}

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

Device* Engine::device() const { return find_device == nullptr ? nullptr : find_device().device; }

std::string Engine::reason() const {
  if (find_device != nullptr) return find_device().reason;
  return (usable() ? "needs " : "this processor lacks ") + std::string(needs);
}

std::span<const Engine> engines() {
  static const auto list = [] {
    auto engines = std::to_array(k_engines);
    for (Engine& engine : engines) {
      if (engine.kernels == nullptr) engine.kernels = best_of(k_engines).kernels;
    }
    return engines;
  }();
  return list;
}

const Engine& best_engine() { return best_of(engines()); }

const Engine& engine_named(std::string_view name) {
  if (name == "auto") return best_engine();
  const auto engine = std::ranges::find(engines(), name, &Engine::name);
  if (engine == engines().end()) {
    throw Error(Fault::usage, std::string(name), "no such engine", "known: " + known_names());
  }
  if (!engine->usable()) {
    throw Error(Fault::unsupported, std::string(name),
                "this engine cannot run here: it needs " + std::string(engine->needs) +
                    (engine->find_device == nullptr ? "" : ": " + engine->reason()),
                "leave the choice to auto");
  }
  return *engine;
}

}  // namespace wdelta
