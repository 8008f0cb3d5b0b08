// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/repository.hpp"

#include <string>
#include <vector>

namespace wdelta {

/// A recipe whose file the Hub does not have any more as it was.
struct LostReference {
  Recipe recipe;
  std::string what;
};

/// Asks the Hub for what `recipes` refer to, a thousand files at a time, and compares sizes and etags; no bytes are
/// read. Throws network when the Hub cannot be asked.
std::vector<LostReference> find_lost_references(const Repository& repository, const std::vector<Recipe>& recipes,
                                                const Execution& execution);

}  // namespace wdelta
