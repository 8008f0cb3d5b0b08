// SPDX-License-Identifier: Apache-2.0
#include "repo/version_finder.hpp"

#include "base/error.hpp"
#include "base/reader_digest.hpp"
#include "repo/stored_objects.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

namespace {

constexpr const char* k_repair_hint = "wdelta push --repair --base DIR REPO restores it from a copy";

}  // namespace

void VersionFinder::add_at_hand(const FileIdentity& identity, std::shared_ptr<const ByteReader> file) {
  kept_.insert(identity.digest);
  versions_.emplace(identity.digest, whole_version(identity, std::move(file), Fault::base_mismatch));
}

Error no_recipe(const std::string& path, const Digest& digest, const RecipeGraph& graph) {
  if (graph.squashed()) {
    return {Fault::not_found, path,
            fmt::format("is of a commit that wdelta squash gave up at {}; wdelta gc has taken its recipes",
                        *graph.squashed()),
            "wdelta log REPO shows the commits before and after it; wdelta push --repair --base DIR REPO@REV restores "
            "it from a copy, and a tag keeps it"};
  }
  return {Fault::corrupt, path, fmt::format("the repository has no recipe for its bytes ({}) any more", digest.hex()),
          "wdelta push --repair --base DIR REPO@REV restores it from a copy"};
}

const ManifestFile* find_lacking(const Commit& commit, const RecipeGraph& graph) {
  const std::vector<ManifestFile>& files = commit.manifest.files;
  const auto lacks = std::ranges::find_if(
      files, [&](const ManifestFile& file) { return !file.content && !graph.can_make(file.identity.digest); });
  return lacks == files.end() ? nullptr : &*lacks;
}

namespace {

// Null when there is none, or it is another file: to read it once more is nothing beside fetching it.
std::shared_ptr<const ByteReader> open_downloaded(const ModelHub& models, const Recipe& recipe,
                                                  const Execution& execution) {
  const auto path = models.downloaded(recipe.reference->at, recipe.reference->path);
  if (!path) return nullptr;
  NoProgress silent;  // it is counted when it is used
  auto file = std::make_shared<File>(File::open(*path));
  if (file->size_bytes() == recipe.size_bytes &&
      digest_of(*file, {execution.threads, &silent, execution.stop}) == recipe.digest) {
    return file;
  }
  execution.progress->note(fmt::format("{}: is not {}", path->string(), recipe.reference->name()));
  return nullptr;
}

// Where the Hub's own client has downloaded it, else on the Hub. Throws not_found when it is gone, with the way out,
// corrupt when it has another size; `path` is made from it.
std::shared_ptr<const ByteReader> open_reference(const Repository& repository, const Recipe& recipe,
                                                 const std::string& path, const Execution& execution) {
  const ModelReference& reference = *recipe.reference;
  const auto gone = [&](const std::string& why) {
    return Error(Fault::not_found, reference.name(), fmt::format("{}; {} is made from it", why, path), k_repair_hint);
  };
  if (auto local = open_downloaded(repository.models(), recipe, execution)) return local;
  std::shared_ptr<const ByteReader> file;
  try {
    file = repository.models().open(reference.at, reference.path);
  } catch (const Error& error) {
    if (error.fault() != Fault::not_found) throw;
    throw gone(error.what());
  }
  if (!file) throw gone("is not there any more");
  if (file->size_bytes() != recipe.size_bytes) {
    throw Error(Fault::corrupt, reference.name(),
                fmt::format("has {} bytes, {} expected", file->size_bytes(), recipe.size_bytes));
  }
  return file;
}

}  // namespace

FileVersion VersionFinder::find(const FileIdentity& wanted) {
  for (;;) {
    try {
      return find_by_best(wanted);
    } catch (const Lost& lost) {
      go_around(lost, wanted);
    }
  }
}

void VersionFinder::let_go(const FileIdentity& found) {
  found_.erase(found.digest);
  if (!kept_.contains(found.digest)) versions_.erase(found.digest);
  if (repository_->store().is_remote()) return;
  std::erase_if(open_objects_, [](const auto& object) { return object.second.use_count() == 1; });
}

void VersionFinder::write(const FileIdentity& wanted, OutputFile* output) {
  for (;;) {
    try {
      write_version(find(wanted), output, *execution_, *proofs_);
      return let_go(wanted);
    } catch (const WrongOrigin& error) {
      // Not what is at hand, for which there is another fault: who gave it to the graph knows better what to do.
      const Recipe* damaged = error.fault() == Fault::corrupt ? graph_->best(error.digest()) : nullptr;
      if (damaged == nullptr) throw;
      go_around(*damaged, error, wanted);
    }
  }
}

void VersionFinder::go_around(const Lost& lost, const FileIdentity& wanted) {
  RecipeGraph others =
      graph_->without(lost.recipes, [this](const Digest& digest) { return versions_.contains(digest); });
  if (!others.can_make(wanted.digest)) throw Error(lost.error);
  execution_->progress->note(fmt::format("{}: {}; another way is taken", lost.error.object(), lost.error.what()));
  // Where much is lost it is looked for in one go: each way that is taken out has all others weighed anew.
  constexpr std::size_t k_most_one_by_one = 8;
  if (++lost_count_ == k_most_one_by_one) {
    const StoredObjects stored(repository_->store());
    RecipeGraph left = others.without([&](const Recipe& recipe) { return !stored.have(recipe); },
                                      [this](const Digest& digest) { return versions_.contains(digest); });
    if (!left.can_make(wanted.digest)) throw Error(lost.error);
    others = std::move(left);
  }
  graph_of_others_ = std::move(others);
  graph_ = &*graph_of_others_;
}

void VersionFinder::go_around(const Recipe& damaged, const Error& why, const FileIdentity& wanted) {
  // What was made of it, too.
  std::erase_if(versions_, [&](const auto& version) {
    return std::ranges::any_of(version.second.origins, [&](const Origin& origin) {
      return origin.fault == Fault::corrupt && origin.digest == damaged.digest;
    });
  });
  go_around(Lost{[damaged](const Recipe& other) { return other == damaged; },
                 Error(why.fault(), why.object(), why.what(), k_damaged_hint)},
            wanted);
}

// What a chain is made of is small as a rule: opened one behind the other, its deltas would be that many round trips.
void VersionFinder::open_objects_for(const Digest& digest) {
  if (!repository_->store().is_remote()) return;
  std::vector<std::string> objects = graph_->sources_of(digest).objects;
  std::erase_if(objects, [this](const std::string& object) { return open_objects_.contains(object); });
  std::vector<std::shared_ptr<const ByteReader>> readers(objects.size());
  for_each_read(repository_->store(), objects.size(), execution_->stop,
                [&](std::size_t i) { readers[i] = repository_->store().get(object_key(objects[i])); });
  for (std::size_t i = 0; i < objects.size(); ++i) open_objects_.emplace(objects[i], std::move(readers[i]));
}

// Not recursive: a chain may be as long as a hostile book likes.
FileVersion VersionFinder::find_by_best(const FileIdentity& wanted) {
  open_objects_for(wanted.digest);
  std::vector<Digest> open = {wanted.digest};
  while (!open.empty()) {
    const Digest digest = open.back();
    if (versions_.contains(digest)) {
      open.pop_back();
      continue;
    }
    const Recipe* recipe = graph_->best(digest);
    if (recipe == nullptr) throw no_recipe(wanted.path, digest, *graph_);
    bool ready = true;
    for (const Digest& base : recipe->base) {
      if (recipe->base.size() > 1) kept_.insert(base);  // as where tensors moved between shards
      if (versions_.contains(base)) continue;
      open.push_back(base);
      ready = false;
    }
    if (!ready) continue;
    versions_.emplace(digest, make(*recipe, wanted.path));
    if (recipe->base.size() != 1) continue;
    const Digest& base = recipe->base.front();
    if (!kept_.contains(base) && !found_.contains(base)) versions_.erase(base);
  }
  found_.insert(wanted.digest);
  FileVersion version = versions_.at(wanted.digest);
  if (version.identity.size_bytes != wanted.size_bytes) {
    throw Error(Fault::corrupt, wanted.path,
                fmt::format("its recipe makes {} bytes, {} expected", version.identity.size_bytes, wanted.size_bytes));
  }
  version.identity.path = wanted.path;
  return version;
}

// What the recipe takes of its object; `path` is made from it.
std::shared_ptr<const ByteReader> VersionFinder::open(const Recipe& recipe, const std::string& path) {
  const auto& [object, offset, length] = recipe.bytes;
  const std::string key = object_key(object);
  auto found = open_objects_.find(object);
  if (found == open_objects_.end()) found = open_objects_.emplace(object, repository_->store().get(key)).first;
  const std::shared_ptr<const ByteReader>& reader = found->second;
  const std::uint64_t size_bytes = reader ? reader->size_bytes() : 0;
  if (reader && recipe.bytes.fits_in(size_bytes)) {
    if (offset == 0 && length == size_bytes) return reader;
    return std::make_shared<SliceReader>(reader, offset, length);
  }
  const std::string what = reader
                               ? fmt::format("has {} bytes, {} are made from byte {} on; ", size_bytes, length, offset)
                               : std::string("is missing, ");
  const auto is_lost_too = [object = object, size_bytes, is_missing = !reader](const Recipe& other) {
    if (other.reference || other.bytes.object != object) return false;
    return is_missing || !other.bytes.fits_in(size_bytes);
  };
  throw Lost{is_lost_too, Error(Fault::corrupt, key, fmt::format("{}{} is made from it", what, path), k_repair_hint)};
}

FileVersion VersionFinder::make_of_reference(const Recipe& recipe, const std::string& path) {
  try {
    auto file = open_reference(*repository_, recipe, path, *execution_);
    kept_.insert(recipe.digest);  // nobody else holds what was fetched of it
    return whole_version({path, recipe.size_bytes, recipe.digest}, std::move(file), Fault::corrupt);
  } catch (const Error& error) {
    if (error.fault() != Fault::not_found) throw;
    const auto is_same = [name = recipe.reference->name()](const Recipe& other) {
      return other.reference && other.reference->name() == name;
    };
    throw Lost{is_same, error};
  }
}

FileVersion VersionFinder::make(const Recipe& recipe, const std::string& path) {
  if (recipe.reference) return make_of_reference(recipe, path);
  const std::shared_ptr<const ByteReader> object = open(recipe, path);
  if (!recipe.is_delta) return whole_version({path, recipe.size_bytes, recipe.digest}, object, Fault::corrupt);
  try {
    return make_of_delta(recipe, object);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    throw Lost{[recipe](const Recipe& other) { return other == recipe; }, error};
  }
}

FileVersion VersionFinder::make_of_delta(const Recipe& recipe, const std::shared_ptr<const ByteReader>& object) {
  const auto delta = std::make_shared<DeltaReader>(DeltaReader::open(object));
  delta->check_payload(*execution_);
  const DeltaDescription& description = delta->description();
  bool fits = description.result.digest == recipe.digest && description.result.size_bytes == recipe.size_bytes &&
              description.base.size() == recipe.base.size();
  for (std::size_t i = 0; fits && i < recipe.base.size(); ++i) fits = description.base[i].digest == recipe.base[i];
  if (!fits) throw Error(Fault::corrupt, object_key(recipe.bytes.object), "is not the delta that its recipe says");
  std::vector<FileVersion> bases;
  for (const Digest& base : recipe.base) bases.push_back(versions_.at(base));
  return delta_version(delta, bases, *engine_);
}

}  // namespace wdelta
