// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "delta/delta_writer.hpp"
#include "repo/recipe.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// Puts files into a store, each under its digest, and writes down the recipes for having them again.
class ObjectWriter {
 public:
  /// Files up to this size share packs.
  static constexpr std::uint64_t k_pack_file_bytes = std::uint64_t{1} << 20;
  static constexpr std::size_t k_pack_bytes = std::size_t{32} << 20;

  /// `store` and `execution` must outlive it.
  ObjectWriter(Store& store, const Execution& execution) : store_(&store), execution_(&execution) {}

  /// Keeps a file whole, in one reading; returns its digest.
  Digest put_whole(const ByteReader& file, const std::string& path);
  /// Keeps a delta that `description` describes.
  void put_delta(DeltaWriter::Finished&& delta, const DeltaDescription& description);
  /// Keeps a small file in a pack.
  void put_packed(std::string content, const Digest& digest);
  /// Writes what is still held back. Afterwards recipes() holds for everything that was put.
  void finish();

  const std::vector<Recipe>& recipes() const { return recipes_; }
  std::uint64_t stored_bytes() const { return stored_bytes_; }

 private:
  Store* store_;
  const Execution* execution_;
  std::string pack_;
  std::vector<Recipe> in_pack_;
  std::vector<Recipe> recipes_;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace wdelta
