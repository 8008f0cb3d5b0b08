// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/file_kind.hpp"

#include <algorithm>

namespace wdelta {

FileKind kind_of(std::string_view path) {
  constexpr std::string_view k_training_names[] = {"scheduler", "rng_state", "random_states", "scaler"};
  constexpr std::string_view k_tensor_suffixes[] = {".safetensors", ".bin",  ".pt",  ".pth",     ".ckpt",
                                                    ".distcp",      ".gguf", ".npz", ".msgpack", ".h5"};
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool is_training = std::ranges::any_of(k_training_names, [&](auto each) { return name.starts_with(each); });
  if (is_training || path.find("optim") != std::string_view::npos) return FileKind::optimizer;
  const bool has_tensors = std::ranges::any_of(k_tensor_suffixes, [&](auto each) { return name.ends_with(each); });
  return has_tensors && name != "training_args.bin" ? FileKind::weights : FileKind::side;
}

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::weights:
      return "weights";
    case FileKind::optimizer:
      return "optimizer";
    case FileKind::side:
      break;
  }
  return "side";
}

}  // namespace wdelta
