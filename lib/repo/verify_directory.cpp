// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/file_turns.hpp"
#include "base/reader_digest.hpp"
#include "checkpoint/checkpoint.hpp"
#include "delta/diff.hpp"
#include "repo/verify.hpp"
#include "repo/version_finder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace wdelta {

namespace {

// The tensors in which a local file differs from the commit's. The file may be anything, so this may find nothing.
std::vector<std::string> differing_tensors(VersionFinder& finder, const FileIdentity& wanted,
                                           const CheckpointFile& file, const Engine& engine,
                                           const Execution& execution) try {
  const std::vector<BaseFile> base = {{wanted.path, RebuiltFile::from_file(finder.find(wanted).reader())}};
  const FileChange change = diff_file(base, wanted.path, file.open(), std::nullopt, {}, engine, execution);
  std::vector<std::string> names = change.removed_tensors;
  for (const TensorChange& tensor : change.tensors) {
    if (tensor.change_count > 0 || tensor.afresh) names.push_back(tensor.name);
  }
  return names;
} catch (const Error& error) {
  if (error.fault() == Fault::interrupted) throw;
  return {};
}

// What there is for each file of a commit; null where there is none. A single file is looked at as itself, whatever its
// name.
std::vector<const CheckpointFile*> files_for(const Manifest& manifest, const Checkpoint& checkpoint) {
  if (checkpoint.is_single_file() && manifest.files.size() == 1) return {&checkpoint.files().front()};
  std::vector<const CheckpointFile*> files;
  for (const ManifestFile& wanted : manifest.files) files.push_back(checkpoint.find(wanted.identity.path));
  return files;
}

/// What came of looking at a file.
struct Looked {
  Digest digest;
  std::optional<Error> failure;  ///< then the digest is nothing
};

std::vector<Looked> look_at(const std::vector<const CheckpointFile*>& files, const Execution& execution) {
  std::vector<std::uint64_t> sizes_bytes;
  for (const CheckpointFile* file : files) sizes_bytes.push_back(file == nullptr ? 0 : file->size_bytes);
  std::vector<Looked> looked(files.size());
  for_each_file(sizes_bytes, execution, [&](std::size_t index, const Execution& on) {
    if (files[index] == nullptr) return;
    try {
      const auto reader = files[index]->open();
      looked[index].digest = digest_of(*reader, on);
      reader->check_unchanged();
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      looked[index].failure = error;
    }
  });
  return looked;
}

}  // namespace

VerifyReport verify_directory(const Repository& repository, const Commit& commit,
                              const std::filesystem::path& directory, const Engine& engine,
                              const Execution& execution) {
  const Checkpoint checkpoint = Checkpoint::open(directory, Shards::any, {}, Others::tell_apart);
  const RecipeGraph graph = repository.recipes(commit);
  VersionFinder finder(repository, graph, engine, execution);
  VerifyReport report;
  execution.progress->begin("verifying", commit.manifest.size_bytes());
  const std::vector<const CheckpointFile*> files = files_for(commit.manifest, checkpoint);
  const std::vector<Looked> looked = look_at(files, execution);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ManifestFile& wanted = commit.manifest.files[i];
    const CheckpointFile* file = files[i];
    ++report.checked;
    if (file == nullptr) {
      const bool taken = std::ranges::binary_search(checkpoint.others(), wanted.identity.path);
      report.findings.push_back({wanted.identity.path, taken ? "is no file, nor a symlink to one" : "is missing", {}});
      continue;
    }
    report.checked_bytes += file->size_bytes;
    if (looked[i].failure) {
      report.add(wanted.identity.path, *looked[i].failure);
      continue;
    }
    const Digest& digest = looked[i].digest;
    if (digest != wanted.identity.digest) {
      Finding finding{wanted.identity.path,
                      fmt::format("differs: digest {}, {} expected", digest.hex(), wanted.identity.digest.hex()),
                      {}};
      if (is_weights(wanted.identity.path))
        finding.tensors = differing_tensors(finder, wanted.identity, *file, engine, execution);
      report.findings.push_back(std::move(finding));
    } else if (file->executable != wanted.executable) {
      report.findings.push_back({wanted.identity.path, wanted.executable ? "is not executable" : "is executable", {}});
    }
  }
  if (checkpoint.is_single_file()) return report;
  const auto check_stray = [&](const std::string& place) {
    if (commit.manifest.find(place) != nullptr || !is_loaded_by_name(place)) return;
    ++report.checked;
    report.findings.push_back({place, "is not of the commit, and a loader would pick it up", {}});
  };
  for (const CheckpointFile& file : checkpoint.files()) check_stray(file.path);
  for (const std::string& place : checkpoint.others()) check_stray(place);
  return report;
}

}  // namespace wdelta
