// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "delta/delta_writer.hpp"
#include "repo/object_sender.hpp"
#include "repo/recipe.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// Puts files into a store, each under its digest, and writes down the recipes for having them again. What is small
/// shares objects: a request has its price in every store, and a checkpoint may have thousands of files.
class ObjectWriter {
 public:
  /// Files up to this size share packs.
  static constexpr std::uint64_t k_pack_file_bytes = std::uint64_t{1} << 20;
  static constexpr std::size_t k_pack_bytes = std::size_t{32} << 20;

  /// What `known` can make is not put again. All must outlive it.
  ObjectWriter(Store& store, const RecipeGraph& known, const Execution& execution)
      : store_(&store), known_(&known), execution_(&execution), sender_(store, execution) {}

  /// Keeps a file whole, in one reading; returns its digest.
  Digest put_whole(const std::shared_ptr<const ByteReader>& file, const std::string& path);
  /// The same for one that was read already.
  Digest put_whole(std::span<const std::uint8_t> file, const std::string& path);
  /// Has the store copy a file of a model, whose digest is known; it must be able to, and the file be in the Hub's
  /// content store.
  void put_copy(const FileIdentity& file, const ModelCommit& from, const ModelFile& source);
  /// Writes down where a file of a model is, and keeps nothing.
  void refer(const FileIdentity& file, const ModelCommit& from, const ModelFile& source);
  /// Keeps a delta that `description` describes.
  void put_delta(DeltaWriter::Finished&& delta, const DeltaDescription& description);
  /// Writes what is still held back, and waits for what is on its way. Afterwards recipes() holds for everything that
  /// was put.
  void finish();

  /// Whether a file need not be put: it has been, or is known.
  bool has(const Digest& file) const { return put_.contains(file) || known_->can_make(file); }
  const std::vector<Recipe>& recipes() const { return recipes_; }
  std::uint64_t stored_bytes() const { return stored_bytes_; }

 private:
  enum class Content { safetensors, other };
  bool is_doomed(const std::string& object);
  void pack(Recipe recipe, std::span<const std::uint8_t> bytes, Content content);
  void count(const Recipe& recipe);
  void finish_pack();

  Store* store_;
  const RecipeGraph* known_;
  const Execution* execution_;
  std::string pack_;
  std::vector<Recipe> in_pack_;
  Content last_in_pack_ = Content::other;
  std::set<Digest> put_;
  std::optional<std::set<std::string>> doomed_;  // keys that a plan of gc names; read when it matters
  std::vector<Recipe> recipes_;
  std::uint64_t stored_bytes_ = 0;
  ObjectSender sender_;
};

}  // namespace wdelta
