// SPDX-License-Identifier: Apache-2.0
#include "repo/verify.hpp"

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
      if (file.content) {
        proven_content(file, file.identity.path);
      } else {
        finder.write(file.identity, nullptr);
      }
    } catch (const Error& error) {
      report.add(file.identity.path, error);
      if (error.fault() == Fault::network) break;
    }
  }
  return report;
}

namespace {

constexpr std::uint64_t k_longest_list = 1'000'000'000;

/// `result`: what it must make, where something says so.
void check_delta_file(const fs::path& path, const FileIdentity* result, const Execution& execution) {
  const DeltaReader delta = DeltaReader::open(std::make_shared<File>(File::open(path)));
  delta.check_payload(execution);
  if (result != nullptr && delta.description().result != *result)
    throw Error(Fault::corrupt, path.string(), "makes another file than the list beside it says");
}

void check_listed(const ListedFile& listed, const fs::path& kept, const Execution& execution) {
  if (listed.as == ListedAs::delta) return check_delta_file(kept, &listed.identity, execution);
  const File file = File::open(kept);
  const FileIdentity& wanted = listed.identity;
  if (file.size_bytes() != wanted.size_bytes)
    throw Error(Fault::corrupt, kept.string(),
                fmt::format("has {} bytes, the list says {}", file.size_bytes(), wanted.size_bytes));
  if (digest_of(file, execution) != wanted.digest)
    throw Error(Fault::corrupt, kept.string(), "has another digest than the list says");
}

}  // namespace

// By its list, as its folder is not there where nothing differs and what copies directories leaves out empty ones.
bool is_delta_directory(const fs::path& path) try {
  const fs::path list_path = path / k_list_name;
  return fs::is_regular_file(list_path) && (fs::is_directory(path / k_files_folder) ||
                                            claims_to_be_delta_list(read_small_file(list_path, k_longest_list)));
} catch (const Error&) {
  return false;
}

VerifyReport verify_delta(const fs::path& path, const Execution& execution) {
  VerifyReport report;
  execution.progress->begin("verifying", 0);
  if (!is_delta_directory(path)) {
    check_delta_file(path, nullptr, execution);
    report.checked = 1;
    report.checked_bytes = fs::file_size(path);
    return report;
  }
  const fs::path list_path = path / k_list_name;
  const DeltaList list = delta_list_from(read_small_file(list_path, k_longest_list), list_path.string());
  for (const ListedFile& listed : list.files) {
    if (listed.as == ListedAs::same) continue;
    const fs::path kept = path / k_files_folder / listed.identity.path;
    ++report.checked;
    try {
      check_listed(listed, kept, execution);
      report.checked_bytes += fs::file_size(kept);
    } catch (const Error& error) {
      report.add(kept.string(), error);
    }
  }
  return report;
}

}  // namespace wdelta
