// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// Pages that follow each other.
struct PageRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// A file that holds those pages of a remote object that have arrived. Where the object has an identity the file keeps
/// its name when a program is killed, and the next one goes on with the pages that are there: each is written down with
/// its value in the BLAKE3 tree of the whole, and believed when that is right. Safe to use from several threads for
/// different pages.
class Spool {
 public:
  static constexpr std::size_t k_page_bytes = std::size_t{1} << 20;

  /// `identity` names the very bytes: whatever changes them changes it; empty when there is nothing of that kind. The
  /// directory is made.
  Spool(const std::filesystem::path& directory, std::string_view identity, std::uint64_t size_bytes);
  Spool(const Spool&) = delete;
  /// The pages that an earlier program left.
  const std::vector<std::uint64_t>& found_pages() const { return found_pages_; }
  void write_page(std::uint64_t page, std::span<const std::uint8_t> bytes);
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  /// Of all bytes; every page must have been written or found.
  Digest digest() const { return tree_.finish(); }
  /// Makes the file itself the output's content. False, and nothing changed, where it is on another file system. Behind
  /// a true nothing else may be asked of this.
  bool move_into(OutputFile& output);
  /// Takes the name away, so that the pages go with this object. Without it they are left for another program.
  void forget();

  /// Removes those that nobody works at and nobody has written to for `age_s`.
  static void remove_older(const std::filesystem::path& directory, std::int64_t age_s) noexcept;

 private:
  bool open_named(const std::filesystem::path& directory, std::string_view identity);
  void read_found_pages();

  std::uint64_t size_bytes_;
  Blake3Tree tree_;
  std::filesystem::path path_;  ///< empty: it has no name
  Fd bytes_;
  Fd pages_;
  std::vector<std::uint64_t> found_pages_;
  std::mutex mutex_;  // of what is appended to pages_
};

}  // namespace wdelta
