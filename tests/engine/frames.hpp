// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/frame.hpp"

#include <doctest/doctest.h>

namespace wdelta::testing {

/// Decorates a test case that looks at zstd frames: skipped, by name, in a build of the engine alone without zstd.
inline doctest::skip needs_frames() { return doctest::skip(!has_frames()); }

}  // namespace wdelta::testing
