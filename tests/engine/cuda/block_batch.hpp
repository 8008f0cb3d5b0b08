// SPDX-License-Identifier: Apache-2.0
// Blocks for one launch, and what the scalar engine makes of them.
#pragma once

#include "elements.hpp"
#include "engine/cuda/laws.hpp"
#include "engine/element.hpp"
#include "testing/random.hpp"

#include <cstdint>
#include <vector>

namespace wdelta::testing {

using Bytes = std::vector<std::uint8_t>;

/// How far behind a multiple of 16 bytes each side lies.
struct Skews {
  std::size_t base = 0;
  std::size_t next = 0;
};

class BlockBatch {
 public:
  explicit BlockBatch(ElementType type) : type_(type) {}

  void add(const Bytes& base, const Bytes& next, Skews skews);
  std::size_t size() const { return blocks_.size(); }

  /// Holds find_changes() to scalar, and empties the batch.
  void check_found(Device& device);
  /// The same for rank_changes(), with pack() of all that is laid out by block.
  void check_ranked(Device& device, const Bytes& bounds);

 private:
  struct Block {
    std::size_t base_at;  // in sides_
    std::size_t next_at;
    std::uint32_t count;
    std::uint32_t changes;
    std::size_t change_at;  // in positions_, contexts_; times the width in steps_
  };
  struct Uploaded;

  std::size_t place(const Bytes& bytes, std::size_t skew);

  ElementType type_;
  std::vector<Block> blocks_;
  Bytes sides_;
  std::vector<std::uint16_t> positions_;
  Bytes steps_;
  Bytes contexts_;
};

}  // namespace wdelta::testing
