// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <string>

namespace wdelta {

TEST_CASE("scalar is the last engine and runs everywhere") {
  REQUIRE(!engines().empty());
  CHECK(engines().back().name == "scalar");
  CHECK(engines().back().usable());
}

TEST_CASE("auto names the first engine that this processor can run by itself") {
  CHECK(&engine_named("auto") == &best_engine());
  for (const Engine& engine : engines()) {
    if (&engine == &best_engine()) break;
    if (engine.find_device == nullptr) CHECK_FALSE(engine.usable());
  }
}

TEST_CASE("an engine with a device can run where there is one, beside the kernels of the best processor") {
  for (const Engine& engine : engines()) {
    CAPTURE(engine.name);
    CHECK(!engine.reason().empty());
    if (engine.find_device == nullptr) {
      CHECK(engine.device() == nullptr);
      continue;
    }
    CHECK(engine.usable() == (engine.device() != nullptr));
    CHECK(engine.kernels == best_engine().kernels);
    CHECK(&best_engine() != &engine);
  }
}

TEST_CASE("an engine is found by its name, or the refusal says what it needs") {
  for (const Engine& engine : engines()) {
    CAPTURE(engine.name);
    if (engine.usable()) {
      CHECK(&engine_named(engine.name) == &engine);
      continue;
    }
    try {
      engine_named(engine.name);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::unsupported);
      CHECK(error.object() == engine.name);
      CHECK(std::string(error.what()).find(engine.needs) != std::string::npos);
    }
  }
}

TEST_CASE("a name that no engine has is a usage error") {
  for (const char* name : {"", "sse9", "AVX2", "avx2 "}) {
    CAPTURE(name);
    try {
      engine_named(name);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::usage);
      CHECK(error.object() == name);
      CHECK(error.hint().find("scalar") != std::string::npos);
    }
  }
}

}  // namespace wdelta
