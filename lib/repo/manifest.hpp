// SPDX-License-Identifier: Apache-2.0
// What a commit is: wdelta-repository(5), "Manifests".
#pragma once

#include "delta/description.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wdelta {

struct ManifestFile {
  FileIdentity identity;
  bool executable = false;
  std::optional<std::string> content;  ///< of a small side file
};

/// What one needs of an ancestor to list it.
struct CommitSummary {
  std::uint64_t distance = 0;  ///< 1 is the parent
  Digest id;
  std::string time;
  std::optional<std::uint64_t> step;
  std::string title;  ///< the first line of the message

  bool operator==(const CommitSummary&) const = default;
};

struct Manifest {
  std::optional<Digest> parent;
  std::string time;
  std::string author;
  std::string message;
  std::optional<std::uint64_t> step;
  std::vector<std::pair<std::string, std::string>> meta;
  std::vector<ManifestFile> files;  ///< ordered by path
  Digest recipes;
  std::vector<CommitSummary> ancestors;  ///< nearest first

  const ManifestFile* find(std::string_view path) const;
  std::uint64_t size_bytes() const;
  /// Of the files whose bytes are not in the manifest.
  std::vector<Digest> stored_digests() const;
};

inline constexpr std::size_t k_inline_file_bytes = std::size_t{64} << 10;
inline constexpr std::size_t k_inline_total_bytes = std::size_t{256} << 10;
inline constexpr std::size_t k_recent_ancestors = 64;

std::string to_text(const Manifest& manifest);
/// Throws corrupt, naming `object`; in particular for paths that could lead out of a directory or collide.
Manifest manifest_from(std::string_view text, const std::string& object);

/// The bytes of a small side file, out of `file.content`. Throws corrupt, naming `object`, where they have another
/// digest than the manifest says: its id tells only that they are what was pushed.
std::span<const std::uint8_t> proven_content(const ManifestFile& file, const std::string& object);

CommitSummary summary_of(const Digest& id, const Manifest& manifest, std::uint64_t distance);
/// The same as text, for messages: its id, and what is said of it.
std::string in_words(const CommitSummary& summary);
/// The ancestors that it tells of without a gap: of what is among them, only its own manifest need be read.
std::span<const CommitSummary> ancestors_in_row(const Manifest& manifest);
/// The summaries that a child of this commit carries.
std::vector<CommitSummary> ancestors_of_child(const Digest& id, const Manifest& manifest);

}  // namespace wdelta
