// SPDX-License-Identifier: Apache-2.0
#include "delta/diff_checkpoint.hpp"

#include "base/leftovers.hpp"
#include "base/output_directory.hpp"
#include "base/output_file.hpp"
#include "base/reader_digest.hpp"
#include "delta/base_files.hpp"
#include "delta/file_version.hpp"
#include "delta/place_turns.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;

bool CheckpointChange::any() const {
  return std::ranges::any_of(places, [](const PlaceChange& place) { return place.kind != PlaceChange::Kind::same; });
}

namespace {

using Kind = PlaceChange::Kind;

std::vector<std::uint64_t> sizes_of(const Checkpoint& checkpoint) {
  std::vector<std::uint64_t> sizes_bytes;
  for (const CheckpointFile& file : checkpoint.files()) sizes_bytes.push_back(file.size_bytes);
  return sizes_bytes;
}

// A file of next, open.
struct NextFile {
  const CheckpointFile& listed;
  std::shared_ptr<const ByteReader> bytes;
};

// A place of next that is compared as bytes.
PlaceChange compare_bytes(const CheckpointFile* base, const NextFile& file, const Execution& execution) {
  const CheckpointFile& next = file.listed;
  PlaceChange place{next.path,   Kind::added, next.size_bytes, next.executable, digest_of(*file.bytes, execution),
                    std::nullopt};
  file.bytes->check_unchanged();
  require_digest(next, place.digest);
  if (base == nullptr) return place;
  const auto digest_of_base = [&] {
    if (base->digest) return *base->digest;
    const auto bytes = base->open();
    const Digest digest = digest_of(*bytes, execution);
    bytes->check_unchanged();
    return digest;
  };
  const bool same =
      base->size_bytes == next.size_bytes && base->executable == next.executable && digest_of_base() == place.digest;
  place.kind = same ? Kind::same : Kind::changed;
  return place;
}

// Whether the result is the first file of the base. One that takes nothing from the base names none.
bool has_bytes_of_base(const DeltaDescription& description) {
  return !description.base.empty() && description.base.front().digest == description.result.digest;
}

// What the files of a base came to must be what they are known to be.
void require_digests(const Checkpoint& base, const std::vector<FileIdentity>& found) {
  for (const FileIdentity& each : found) {
    if (const CheckpointFile* file = base.find(each.path)) require_digest(*file, each.digest);
  }
}

PlaceChange compare_tensors(const Checkpoint& base, const BaseFiles& base_files, const NextFile& file,
                            const std::optional<fs::path>& output, BlockChoice choice, const Engine& engine,
                            const Execution& execution) {
  const CheckpointFile& next = file.listed;
  const CheckpointFile* base_file = base.is_single_file() ? &base.files().front() : base.find(next.path);
  const auto candidates = base_files.for_place(next.path, *base_files.header_of(next.path, *file.bytes));
  PlaceChange place{next.path, Kind::added, next.size_bytes, next.executable, {}, std::nullopt};
  place.tensors = diff_file(candidates, next.path, file.bytes, output, {choice}, engine, execution);
  file.bytes->check_unchanged();
  const DeltaDescription& description = place.tensors->description;
  place.digest = description.result.digest;
  require_digest(next, place.digest);
  require_digests(base, description.base);
  if (base_file != nullptr) {
    const bool same = has_bytes_of_base(description) && base_file->executable == next.executable;
    place.kind = same ? Kind::same : Kind::changed;
  }
  return place;
}

// Commits what one place needs into the directory delta, and says how it is kept.
ListedAs keep(PlaceChange& place, const std::shared_ptr<const ByteReader>& next, const fs::path& target,
              bool base_has_bytes, const Execution& execution) {
  if (base_has_bytes) return ListedAs::same;
  make_directories(target.parent_path());
  if (place.tensors && place.tensors->delta && place.tensors->delta->size_bytes < place.size_bytes) {
    place.tensors->delta->output.commit_as(target, Overwrite::no_rivals, Durability::cached);
    return ListedAs::delta;
  }
  OutputFile output(target);
  write_version(whole_version({place.path, place.size_bytes, place.digest}, next, Fault::local), &output, execution);
  output.commit(Overwrite::no_rivals, Durability::cached);
  return ListedAs::file;
}

// What a file has no longer may be in another one: removed is what no file of next has, and told once.
void keep_removed_tensors(std::vector<PlaceChange>& places) {
  std::set<std::string> known;
  for (const PlaceChange& place : places) {
    if (!place.tensors) continue;
    for (const TensorChange& tensor : place.tensors->tensors) known.insert(tensor.name);
  }
  const auto is_known = [&](const std::string& name) { return !known.insert(name).second; };
  for (PlaceChange& place : places) {
    if (place.tensors) std::erase_if(place.tensors->removed_tensors, is_known);
  }
}

CheckpointChange diff_single_files(const Checkpoint& base, const Checkpoint& next,
                                   const std::optional<fs::path>& output, BlockChoice choice, const Engine& engine,
                                   const Execution& execution) {
  const BaseFiles base_files(base);
  CheckpointFile file = next.files().front();
  const CheckpointFile* base_file = base.is_single_file() ? &base.files().front() : base.find(file.path);
  // A delta of a file has no place for it.
  if (base_file != nullptr) file.executable = base_file->executable;
  CheckpointChange change;
  if (!is_weights(file.path)) {
    if (output) throw Error(Fault::usage, file.path, "is no .safetensors file, so there is no delta to write");
    change.places.push_back(compare_bytes(base_file, {file, file.open()}, execution));
    return change;
  }
  if (base.is_single_file() && !is_weights(base_file->path)) {
    throw Error(Fault::usage, base.name(), "is no .safetensors file, so its tensors would not be looked at",
                "give it a name that ends so");
  }
  if (output) {
    require_replaceable(*output);
    remove_leftovers_of(*output);
  }
  const NextFile next_file{file, file.open()};
  change.places.push_back(compare_tensors(base, base_files, next_file, output, choice, engine, execution));
  base_files.check_unchanged();
  if (output) change.places.front().tensors->delta->output.commit(Overwrite::yes, Durability::cached);
  return change;
}

}  // namespace

CheckpointChange diff_checkpoints(const Checkpoint& base, const Checkpoint& next, const std::optional<fs::path>& output,
                                  BlockChoice choice, const Engine& engine, const Execution& execution) {
  const std::vector<std::uint64_t> sizes_bytes = sizes_of(next);
  execution.progress->begin("comparing", std::accumulate(sizes_bytes.begin(), sizes_bytes.end(), std::uint64_t{0}));
  if (next.is_single_file()) return diff_single_files(base, next, output, choice, engine, execution);
  if (base.is_single_file()) {
    throw Error(Fault::usage, base.name(), fmt::format("is a file, and {:?} is none", next.name()),
                "give two files, or two directories or commits");
  }
  const BaseFiles base_files(base);
  std::optional<OutputDirectory> directory;
  if (output) {
    directory.emplace(*output);
    make_directories(directory->inside() / k_files_folder);
  }
  CheckpointChange change;
  DeltaList list;
  change.places.resize(next.files().size());
  list.files.resize(directory ? next.files().size() : 0);
  const auto diff_place = [&](std::size_t index, const Execution& on) {
    const CheckpointFile& listed = next.files()[index];
    const CheckpointFile* base_file = base.find(listed.path);
    const auto target = directory ? std::optional(directory->inside() / k_files_folder / listed.path) : std::nullopt;
    if (target) make_directories(target->parent_path());
    const NextFile file{listed, listed.open()};
    PlaceChange& place = change.places[index];
    place = is_weights(listed.path) ? compare_tensors(base, base_files, file, target, choice, engine, on)
                                    : compare_bytes(base_file, file, on);
    if (directory) {
      const bool base_has_bytes = place.kind == Kind::same || (place.tensors && base_file != nullptr &&
                                                               has_bytes_of_base(place.tensors->description));
      const ListedAs as = keep(place, file.bytes, *target, base_has_bytes, on);
      list.files[index] = {{place.path, place.size_bytes, place.digest}, place.executable, as};
    }
    if (place.tensors) place.tensors->delta.reset();
  };
  try {
    for_each_place(sizes_bytes, engine, execution, diff_place);
  } catch (const Error& error) {
    throw directory ? directory->as_named(error) : error;
  }
  for (const CheckpointFile& file : base.files()) {
    if (next.find(file.path) != nullptr) continue;
    change.places.push_back({file.path, Kind::removed, file.size_bytes, file.executable, {}, std::nullopt});
    list.removed.push_back(file.path);
  }
  base_files.check_unchanged();
  next.check_unchanged();  // each file was while it was read, but not since they were listed
  std::ranges::sort(change.places, {}, &PlaceChange::path);
  keep_removed_tensors(change.places);
  if (directory) {
    write_file(directory->inside() / k_list_name, to_text(list), Overwrite::no_rivals, Durability::cached);
    directory->commit();
  }
  return change;
}

}  // namespace wdelta
