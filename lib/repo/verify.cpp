// SPDX-License-Identifier: Apache-2.0
#include "repo/verify.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/reader_digest.hpp"
#include "delta/delta_list.hpp"
#include "repo/version_finder.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;

VerifyReport verify_commit(const Repository& repository, const Commit& commit, const Engine& engine,
                           const Execution& execution) {
  const RecipeGraph graph = repository.recipes(commit);
  VersionFinder finder(repository.store(), graph, engine, execution);
  VerifyReport report;
  execution.progress->begin("verifying", commit.manifest.size_bytes());
  for (const ManifestFile& file : commit.manifest.files) {
    ++report.checked;
    report.checked_bytes += file.identity.size_bytes;
    try {
      if (!file.content) {
        write_version(finder.find(file.identity), nullptr, execution);
      } else if (blake3(std::span(reinterpret_cast<const std::uint8_t*>(file.content->data()), file.content->size())) !=
                 file.identity.digest) {
        report.findings.push_back(
            {file.identity.path, "its content in the manifest has another digest than it says", {}});
      }
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      report.findings.push_back({file.identity.path, fmt::format("{}: {}", error.object(), error.what()), {}});
    }
  }
  return report;
}

namespace {

class RepositoryCheck {
 public:
  RepositoryCheck(const Repository& repository, const Execution& execution)
      : repository_(&repository), execution_(&execution) {}

  VerifyReport run() {
    check_objects();
    for (const char* folder : {"branches/", "tags/"}) {
      for (const Store::Listed& listed : list(folder)) {
        check(listed, [&] { check_ref_entry(repository_->store(), listed.key); });
      }
    }
    for (const Store::Listed& listed : list("commits/")) {
      check(listed, [&] { check_commit(listed.key); });
    }
    for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
      try {
        for (const auto& [name, ref] : list_refs(repository_->store(), kind)) require_commit(name, *ref.commit);
      } catch (const Error& error) {
        report_.findings.push_back({error.object(), error.what(), {}});
      }
    }
    return std::move(report_);
  }

 private:
  std::vector<Store::Listed> list(const std::string& prefix) const { return repository_->store().list(prefix); }

  template <typename Body>
  void check(const Store::Listed& listed, Body body) {
    ++report_.checked;
    report_.checked_bytes += listed.size_bytes;
    try {
      body();
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      const bool said = error.object().ends_with(listed.key);
      report_.findings.push_back(
          {listed.key, said ? error.what() : fmt::format("{}: {}", error.object(), error.what()), {}});
    }
  }

  void check_objects() {
    std::uint64_t total = 0;
    const auto objects = list("objects/");
    for (const Store::Listed& listed : objects) total += listed.size_bytes;
    execution_->progress->begin("verifying objects", total);
    for (const Store::Listed& listed : objects) {
      check(listed, [&] {
        const std::string name = fs::path(listed.key).filename().string();
        const auto expected = object_digest(name);
        if (!expected || object_key(name) != listed.key)
          throw Error(Fault::corrupt, listed.key, "has no name of an object");
        const auto reader = repository_->store().get(listed.key);
        if (!reader) throw Error(Fault::corrupt, listed.key, "vanished");
        object_sizes_[name] = reader->size_bytes();
        const Digest digest = digest_of(*reader, *execution_);
        if (digest != *expected)
          throw Error(Fault::corrupt, listed.key, fmt::format("its bytes have digest {}", digest.hex()));
      });
    }
  }

  void require_commit(const std::string& from, const Digest& id) {
    if (repository_->store().get(commit_key(id)) == nullptr) {
      throw Error(Fault::corrupt, from, fmt::format("names commit {}, which is missing", id.hex()));
    }
  }

  void check_commit(const std::string& key) {
    const auto id = Digest::parse(fs::path(key).stem().string());
    if (!id) throw Error(Fault::corrupt, key, "has no name of a commit");
    const Commit commit = repository_->commit(*id);
    if (commit.manifest.parent) require_commit(key, *commit.manifest.parent);
    const RecipeGraph graph = repository_->recipes(commit);
    std::map<Digest, Recipe> needed;
    for (const ManifestFile& file : commit.manifest.files) {
      if (file.content) continue;
      if (!graph.can_make(file.identity.digest)) {
        throw Error(Fault::corrupt, key,
                    fmt::format("no recipe makes {:?} ({})", file.identity.path, file.identity.digest.hex()));
      }
      graph.collect(file.identity.digest, needed);
    }
    for (const auto& [digest, recipe] : needed) {
      const auto object = object_sizes_.find(recipe.bytes.object);
      if (object == object_sizes_.end())
        throw Error(Fault::corrupt, key, fmt::format("object {} is missing", recipe.bytes.object));
      if (recipe.bytes.offset > object->second || recipe.bytes.length > object->second - recipe.bytes.offset) {
        throw Error(Fault::corrupt, key, fmt::format("object {} is too short for a recipe", recipe.bytes.object));
      }
    }
  }

  const Repository* repository_;
  const Execution* execution_;
  VerifyReport report_;
  std::map<std::string, std::uint64_t> object_sizes_;
};

void check_delta_file(const fs::path& path, const Execution& execution, VerifyReport& report) {
  const auto file = std::make_shared<File>(File::open(path));
  const DeltaReader delta = DeltaReader::open(file);
  delta.check_payload(execution);
  ++report.checked;
  report.checked_bytes += file->size_bytes();
}

}  // namespace

VerifyReport verify_repository(const Repository& repository, const Execution& execution) {
  return RepositoryCheck(repository, execution).run();
}

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
