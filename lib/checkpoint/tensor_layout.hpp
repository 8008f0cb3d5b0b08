// SPDX-License-Identifier: Apache-2.0
// Which files tensors in memory become: wdelta-library(3), "Layout". The same tensors make the same files, in whatever
// order they are named.
#pragma once

#include "checkpoint/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// A tensor that is to lie in a safetensors file.
struct TensorShape {
  std::string name;
  const Dtype* dtype = nullptr;
  std::vector<std::uint64_t> shape;
};

/// What it takes in a file. Throws usage when that is no whole number of bytes, or more than can be counted.
std::uint64_t size_bytes_of(const TensorShape& tensor);

struct FileLayout {
  struct Part {
    std::size_t tensor = 0;   ///< which of those that were laid out
    std::uint64_t begin = 0;  ///< offset in the file
  };
  std::string path;
  std::vector<std::uint8_t> front;  ///< length, JSON and padding
  std::vector<Part> parts;          ///< in the order of their bytes; from the front on without gaps
  std::uint64_t size_bytes = 0;
};

struct TensorLayout {
  std::vector<FileLayout> files;
  struct Index {
    std::string path;
    std::string text;
  };
  std::optional<Index> index;  ///< where there are several files
};

struct LayoutChoice {
  std::string path = "model.safetensors";
  std::uint64_t largest_shard_bytes = 5'000'000'000;  ///< of tensors in one file, unless a single one has more
  std::map<std::string, std::string> metadata;        ///< of every file; none without an entry
};

/// Throws usage for a path that is not that of a safetensors file, and for names that are empty, reserved, not UTF-8 or
/// given twice.
TensorLayout lay_out(std::span<const TensorShape> tensors, const LayoutChoice& choice);

}  // namespace wdelta
