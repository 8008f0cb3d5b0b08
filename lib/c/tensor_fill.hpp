// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "c/proven_read.hpp"
#include "c/tensor.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace wdelta {

/// Where a part of a file goes.
struct FilledPart {
  std::uint64_t begin;
  std::uint64_t end;
  std::shared_ptr<const TensorTarget> target;
};

/// Fills targets with the parts of a file that are theirs, which ascend and do not overlap. Reads all of the file once,
/// and throws corrupt in the end unless it has its digest: what targets hold then is unspecified. Reports to the
/// progress.
void fill_tensors(const ProvableFile& file, std::span<const FilledPart> parts, const Execution& execution);

}  // namespace wdelta
