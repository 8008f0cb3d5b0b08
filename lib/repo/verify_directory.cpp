// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/reader_digest.hpp"
#include "checkpoint/checkpoint.hpp"
#include "delta/diff.hpp"
#include "repo/verify.hpp"
#include "repo/version_finder.hpp"

#include <algorithm>
#include <fmt/format.h>

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

}  // namespace

VerifyReport verify_directory(const Repository& repository, const Commit& commit,
                              const std::filesystem::path& directory, const Engine& engine,
                              const Execution& execution) {
  const Checkpoint checkpoint = Checkpoint::open(directory, Shards::any, {}, Others::tell_apart);
  const RecipeGraph graph = repository.recipes(commit);
  VersionFinder finder(repository, graph, engine, execution);
  VerifyReport report;
  execution.progress->begin("verifying", commit.manifest.size_bytes());
  for (const ManifestFile& wanted : commit.manifest.files) {
    // A single file is looked at as itself, whatever its name.
    const bool alone = checkpoint.is_single_file() && commit.manifest.files.size() == 1;
    const CheckpointFile* file = alone ? &checkpoint.files().front() : checkpoint.find(wanted.identity.path);
    ++report.checked;
    if (file == nullptr) {
      const bool taken = std::ranges::binary_search(checkpoint.others(), wanted.identity.path);
      report.findings.push_back({wanted.identity.path, taken ? "is no file, nor a symlink to one" : "is missing", {}});
      continue;
    }
    const auto reader = file->open();
    report.checked_bytes += file->size_bytes;
    const Digest digest = digest_of(*reader, execution);
    reader->check_unchanged();
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
    report.findings.push_back({place, "is not of the commit, and a loader would pick it up", {}});
  };
  for (const CheckpointFile& file : checkpoint.files()) check_stray(file.path);
  for (const std::string& place : checkpoint.others()) check_stray(place);
  return report;
}

}  // namespace wdelta
