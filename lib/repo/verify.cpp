// SPDX-License-Identifier: Apache-2.0
#include "repo/verify.hpp"

#include "base/blake3.hpp"
#include "base/reader_digest.hpp"
#include "delta/delta_list.hpp"
#include "repo/version_finder.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// Whether it says nothing of the bytes that were asked for.
bool is_of_looking(Fault fault) {
  return fault == Fault::local || fault == Fault::network || fault == Fault::unsupported || fault == Fault::internal;
}

}  // namespace

void VerifyReport::add(const std::string& object, const Error& error) {
  if (error.fault() == Fault::interrupted) throw error;
  const bool said = error.object() == object || error.object().ends_with("/" + object);
  std::string what = said ? error.what() : fmt::format("{}: {}", error.object(), error.what());
  if (is_of_looking(error.fault())) {
    unseen.push_back({object, std::move(what), error.fault()});
  } else {
    findings.push_back({object, std::move(what), {}});
  }
  if (hint.empty()) hint = error.hint();
}

VerifyReport verify_commit(const Repository& repository, const Commit& commit, const Engine& engine,
                           const Execution& execution) {
  const RecipeGraph graph = repository.recipes(commit);
  VersionFinder finder(repository, graph, engine, execution);
  VerifyReport report;
  execution.progress->begin("verifying", commit.manifest.size_bytes());
  for (const ManifestFile& file : commit.manifest.files) {
    ++report.checked;
    report.checked_bytes += file.identity.size_bytes;
    try {
      if (!file.content) {
        finder.write(file.identity, nullptr);
      } else if (blake3(std::span(reinterpret_cast<const std::uint8_t*>(file.content->data()), file.content->size())) !=
                 file.identity.digest) {
        report.findings.push_back(
            {file.identity.path, "its content in the manifest has another digest than it says", {}});
      }
    } catch (const Error& error) {
      report.add(file.identity.path, error);
      if (error.fault() == Fault::network) break;
    }
  }
  return report;
}

namespace {

void check_delta_file(const fs::path& path, const Execution& execution, VerifyReport& report) {
  const auto file = std::make_shared<File>(File::open(path));
  const DeltaReader delta = DeltaReader::open(file);
  delta.check_payload(execution);
  ++report.checked;
  report.checked_bytes += file->size_bytes();
}

}  // namespace

bool is_delta_directory(const fs::path& path) {
  return fs::is_regular_file(path / k_list_name) && fs::is_directory(path / k_files_folder);
}

VerifyReport verify_delta(const fs::path& path, const Execution& execution) {
  VerifyReport report;
  execution.progress->begin("verifying", 0);
  if (!is_delta_directory(path)) {
    check_delta_file(path, execution, report);
    return report;
  }
  const fs::path list_path = path / k_list_name;
  constexpr std::uint64_t k_longest_list = 1'000'000'000;
  const DeltaList list = delta_list_from(read_small_file(list_path, k_longest_list), list_path.string());
  for (const ListedFile& listed : list.files) {
    const fs::path kept = path / k_files_folder / listed.identity.path;
    if (listed.as == ListedAs::delta) check_delta_file(kept, execution, report);
    if (listed.as == ListedAs::file) {
      const File file = File::open(kept);
      if (digest_of(file, execution) != listed.identity.digest)
        throw Error(Fault::corrupt, kept.string(), "has another digest than the list says");
      ++report.checked;
      report.checked_bytes += file.size_bytes();
    }
  }
  return report;
}

}  // namespace wdelta
