// SPDX-License-Identifier: Apache-2.0
#include "repo/hub_base.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/moment.hpp"
#include "base/path.hpp"
#include "repo/gc_plan.hpp"
#include "repo/model_digest.hpp"
#include "repo/object_writer.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

constexpr const char* k_base_key = "base";  // in the metadata of a commit that was made of a model

// The model's files that are taken, ordered by path.
std::vector<ModelFile> files_to_take(const ModelHub& models, const ModelCommit& at, const PathFilter& filter) {
  std::vector<ModelFile> files = models.list(at);
  std::erase_if(files, [&](const ModelFile& file) { return !filter.takes(file.path); });
  if (files.empty()) throw Error(Fault::not_found, at.name(), "has no files to take", "see --include and --exclude");
  std::ranges::sort(files, {}, &ModelFile::path);
  std::vector<std::string_view> paths;
  for (const ModelFile& file : files) {
    if (const char* reason = why_not_a_place(file.path)) {
      throw Error(Fault::unsupported, at.name(), fmt::format("the name of {:?} {}", file.path, reason),
                  "--exclude leaves it out");
    }
    paths.push_back(file.path);
  }
  if (const auto collision = find_collision(std::move(paths))) {
    throw Error(Fault::unsupported, at.name(),
                fmt::format("holds {:?} and {:?}, which are one where case does not count", collision->first,
                            collision->second),
                "--exclude leaves one of them out");
  }
  return files;
}

/// Finds out what the files of a model are, and keeps them.
class BaseKeeper {
 public:
  BaseKeeper(Repository& repository, const HubBaseOptions& options, const ModelCommit& at, const Execution& execution)
      : repository_(&repository),
        options_(&options),
        at_(&at),
        execution_(&execution),
        objects_(repository.store(), nothing_known_, execution) {}

  ManifestFile keep(const ModelFile& file, HubBase& base) {
    base.report.size_bytes += file.size_bytes;
    const bool fits =
        file.size_bytes <= k_inline_file_bytes && inlined_bytes_ + file.size_bytes <= k_inline_total_bytes;
    const FoundFile found = find(file, base.report);
    ManifestFile kept{{file.path, file.size_bytes, found.digest}, false, std::nullopt};
    if (fits && !is_weights(file.path)) {
      const std::vector<std::uint8_t> bytes = read_all(*found.reader);
      // Between two readings a local copy may have changed.
      if (blake3(bytes) != found.digest) throw Error(Fault::local, file.path, "changed while it was read");
      kept.content = std::string(bytes.begin(), bytes.end());
      inlined_bytes_ += bytes.size();
      return kept;
    }
    base.at_hand[file.path] = found.open;
    if (options_->kept == BaseKept::referred) {
      objects_.refer(kept.identity, *at_, file);
      base.report.referred_bytes += file.size_bytes;
    } else if (!file.xet_hash.empty()) {
      objects_.put_copy(kept.identity, *at_, file);
      base.report.copied_bytes += file.size_bytes;
    } else if (objects_.put_whole(found.reader, file.path) != found.digest) {
      // What lies in git is small; the service copies only what is in its content store.
      throw Error(Fault::local, file.path, "changed while it was read");
    }
    return kept;
  }

  std::vector<Recipe> finish() {
    objects_.finish();
    return objects_.recipes();
  }

 private:
  struct FoundFile {
    Digest digest;
    std::shared_ptr<const ByteReader> reader;
    std::function<std::shared_ptr<const ByteReader>()> open;  // again, to compare with
  };

  // From a copy that is here and is the same, else from the Hub.
  FoundFile find(const ModelFile& file, HubBaseReport& report) {
    const ModelHub& models = repository_->models();
    std::vector<fs::path> copies;
    for (const fs::path& directory : options_->local_copies) copies.push_back(directory / file.path);
    if (auto downloaded = models.downloaded(*at_, file.path)) copies.push_back(std::move(*downloaded));
    for (const fs::path& path : copies) {
      std::error_code ignored;
      if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) != file.size_bytes) continue;
      const auto open = [path]() -> std::shared_ptr<const ByteReader> {
        return std::make_shared<File>(File::open(path));
      };
      const auto reader = open();
      const ModelDigest digest = digest_of_model_file(*reader, models, file, *execution_);
      reader->check_unchanged();
      if (digest.etag == file.etag) return {digest.digest, reader, open};
      execution_->progress->note(fmt::format("{}: is not the file of {}", path.string(), at_->name()));
    }
    const auto reader = models.open(*at_, file.path);
    const std::string name = at_->name() + "/" + file.path;
    if (!reader) throw Error(Fault::not_found, name, "is listed and not there");
    if (reader->size_bytes() != file.size_bytes) {
      throw Error(Fault::corrupt, name,
                  fmt::format("has {} bytes, the Hub lists {}", reader->size_bytes(), file.size_bytes));
    }
    report.fetched_bytes += file.size_bytes;
    if (file.size_bytes > k_inline_file_bytes && !is_announced_) {
      is_announced_ = true;
      execution_->progress->note(
          fmt::format("{} is not here: reading it once from the Hub, to know the digests of its files", at_->name()));
    }
    const ModelDigest digest = digest_of_model_file(*reader, models, file, *execution_);
    if (digest.etag != file.etag)
      throw Error(Fault::corrupt, name, fmt::format("its bytes are {}, the Hub lists {}", digest.etag, file.etag));
    // What was fetched in pieces lies in a file as long as its reader does; what came at once lies in memory, and there
    // may be many.
    if (file.size_bytes > ObjectWriter::k_pack_file_bytes) return {digest.digest, reader, [reader] { return reader; }};
    return {digest.digest, reader, [&models, at = *at_, path = file.path] { return models.open(at, path); }};
  }

  Repository* repository_;
  const HubBaseOptions* options_;
  const ModelCommit* at_;
  const Execution* execution_;
  RecipeGraph nothing_known_;
  ObjectWriter objects_;
  std::size_t inlined_bytes_ = 0;
  bool is_announced_ = false;
};

// Whether gc is about to remove what a push that never came to its end has put of that commit.
bool is_planned(const Store& store, const Digest& commit) {
  const auto plan = store.is_remote() ? read_gc_plan(store) : std::nullopt;
  return plan && std::ranges::any_of(plan->keys, [&](const std::string& key) {
           return key == commit_key(commit) || commit_of_book(key) == commit;
         });
}

}  // namespace

HubBase bring_base(Repository& repository, const HubBaseOptions& options, const Execution& execution) {
  if (options.kept == BaseKept::copied && !repository.store().can_copy_models()) {
    throw Error(Fault::unsupported, repository.name(),
                "takes no copy of a model from the Hub: only a bucket of the Hub can",
                "--reference refers to the model instead; or download it, and push that first");
  }
  const ModelHub& models = repository.models();
  const ModelHub::Resolved resolved = models.resolve(options.model);
  const ModelCommit& at = resolved.at;
  const std::vector<ModelFile> files = files_to_take(models, at, options.filter);
  std::uint64_t total_bytes = 0;
  for (const ModelFile& file : files) total_bytes += file.size_bytes;

  HubBase base;
  base.report.at = at;
  base.report.file_count = files.size();
  Manifest& manifest = base.commit.manifest;
  // Nothing of this machine, and no time of now: whoever begins with this model makes the same commit.
  manifest.time = resolved.time.empty() ? now_text() : resolved.time;
  manifest.author = at.model.substr(0, at.model.find('/'));
  manifest.message = "base " + at.name();
  manifest.meta = {{k_base_key, at.name()}};
  execution.progress->begin("reading the base", total_bytes);
  BaseKeeper keeper(repository, options, at, execution);
  for (const ModelFile& file : files) manifest.files.push_back(keeper.keep(file, base));
  base.book = {keeper.finish(), {}};
  // As text, whatever its length: versions of zstd differ.
  const BookBytes book{to_text(base.book)};
  manifest.recipes = book.digest();
  std::string text = to_text(manifest);
  // Over a network nothing is put under a name that a plan of gc has (ObjectWriter::is_doomed).
  if (is_planned(repository.store(), blake3(text))) {
    manifest.time = now_text();
    text = to_text(manifest);
  }
  base.commit.id = base.report.id = blake3(text);
  repository.put_commit(base.commit.id, text, book);
  return base;
}

void require_begins_with(const Repository& repository, const Commit& tip, const std::string& branch,
                         const ModelRevision& model) {
  // The farthest ancestor that a manifest knows is more than half the way.
  Commit first = tip;
  while (!first.manifest.ancestors.empty()) first = repository.commit(first.manifest.ancestors.back());
  std::string begins_with;
  for (const auto& [key, value] : first.manifest.meta) {
    if (key == k_base_key) begins_with = value;
  }
  const auto refuse = [&](const std::string& what) {
    throw Error(Fault::usage, branch, what, "push without --base, or -b NAME to begin another branch with it");
  };
  if (begins_with.empty()) refuse("has commits already, so it cannot begin with a base");
  constexpr std::size_t k_commit_digits = 40;
  const bool names_commit = model.revision.size() == k_commit_digits && is_model_etag(model.revision);
  const bool is_same = names_commit ? begins_with == ModelCommit{model.model, model.revision}.name()
                                    : begins_with.starts_with("hf://" + model.model + "@");
  if (!is_same) refuse(fmt::format("begins with another base, {}", begins_with));
}

}  // namespace wdelta
