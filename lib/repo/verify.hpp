// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "base/execution.hpp"
#include "engine/engine.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wdelta {

/// One thing that is not as it should be.
struct Finding {
  std::string object;  ///< the file's place, or the key
  std::string what;
  std::vector<std::string> tensors;  ///< those that differ, where that could be told
};

/// One thing that could not be looked at, so that nothing is known of it: this machine or the network failed, or this
/// program is too old for it.
struct Unseen {
  std::string object;  ///< as in Finding
  std::string what;
  Fault fault;
};

struct VerifyReport {
  std::size_t checked = 0;  ///< files or objects
  std::uint64_t checked_bytes = 0;
  std::size_t taken_count = 0;  ///< commits that were given up, and whose bytes gc took: nothing to rebuild
  std::vector<Finding> findings;
  std::vector<Unseen> unseen;
  std::string hint;  ///< a way out, where there is one

  bool is_ok() const { return findings.empty() && unseen.empty(); }
  /// Adds what is said of `object`, which is not named twice, and the way out if there is none yet: to what was found
  /// or, as the fault says, to what could not be looked at. Throws an interruption on.
  void add(const std::string& object, const Error& error);
};

/// Compares every file of `directory` with what `commit` says, by digest; names the tensors that differ by rebuilding
/// the commit's file as a stream beside it. Files that are not of the commit count when a loader would pick them up.
VerifyReport verify_directory(const Repository& repository, const Commit& commit,
                              const std::filesystem::path& directory, const Engine& engine, const Execution& execution);

/// Rebuilds every file of `commit` as a stream, without writing it, and checks its digest. Ends where the network
/// fails.
VerifyReport verify_commit(const Repository& repository, const Commit& commit, const Engine& engine,
                           const Execution& execution);

/// How far to look. quick: documents, sizes of objects, and whether the Hub still has what is referred to. objects:
/// their bytes too. deep: every file of every commit is rebuilt as well, as a stream.
enum class VerifyDepth { quick, objects, deep };

/// Checks everything in the repository: every document against its digest and, unless quick, every object against its
/// name; that nothing else lies among them; that the entries of branches and tags are without gaps and name commits
/// that are there, as does every commit its parent, and what it says of its ancestors is what follows from that one;
/// that small side files in manifests have the digests that these say; that every file of every commit can be made from
/// objects that are there and long enough, or from files of models that are there and what they were; the plan of gc. A
/// commit that was given up (squash) may lack recipes, unless a branch, a tag or a second child makes it wanted again.
/// Ends where the network fails.
VerifyReport verify_repository(const Repository& repository, VerifyDepth depth, const Engine& engine,
                               const Execution& execution);

/// Checks deltas alone. A file: throws corrupt where it is damaged. A directory: its list, which it throws for, and
/// that all that the list names is there, whole, and makes what the list says.
VerifyReport verify_delta(const std::filesystem::path& path, const Execution& execution);
/// Whether `path` is a delta of directories, sound or not.
bool is_delta_directory(const std::filesystem::path& path);

}  // namespace wdelta
