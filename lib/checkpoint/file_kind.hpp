// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace wdelta {

/// What a file of a checkpoint is to the people who pay for its bytes. Goes by the name alone.
enum class FileKind { weights, optimizer, side };

inline constexpr std::array k_file_kinds = {FileKind::weights, FileKind::optimizer, FileKind::side};

/// optimizer: what is needed only to go on training (optimizer*, *optim_states*, scheduler*, rng_state*, scaler*).
/// weights: other files of tensors, whatever their format. side: all else.
FileKind kind_of(std::string_view path);
const char* name_of(FileKind kind);

}  // namespace wdelta
