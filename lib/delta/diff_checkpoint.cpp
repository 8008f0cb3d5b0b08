// SPDX-License-Identifier: Apache-2.0
#include "delta/diff_checkpoint.hpp"

#include "base/leftovers.hpp"
#include "base/reader_digest.hpp"
#include "delta/base_files.hpp"
#include "delta/file_version.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;

bool CheckpointChange::any() const {
  return std::ranges::any_of(places, [](const PlaceChange& place) { return place.kind != PlaceChange::Kind::same; });
}

namespace {

using Kind = PlaceChange::Kind;

std::uint64_t total_bytes(const Checkpoint& checkpoint) {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : checkpoint.files()) total += file.size_bytes;
  return total;
}

// A place of next that is compared as bytes.
PlaceChange compare_bytes(const CheckpointFile* base, const CheckpointFile& next, const Execution& execution) {
  const auto file = next.open();
  PlaceChange place{next.path,   Kind::added, next.size_bytes, next.executable, digest_of(*file, execution),
                    std::nullopt};
  file->check_unchanged();
  if (base == nullptr) return place;
  const bool same = base->size_bytes == next.size_bytes && base->executable == next.executable &&
                    (base->digest ? *base->digest : digest_of(*base->open(), execution)) == place.digest;
  place.kind = same ? Kind::same : Kind::changed;
  return place;
}

// Whether the result is the first file of the base. One that takes nothing from the base names none.
bool has_bytes_of_base(const DeltaDescription& description) {
  return !description.base.empty() && description.base.front().digest == description.result.digest;
}

PlaceChange compare_tensors(const BaseFiles& base, const CheckpointFile* base_file, const CheckpointFile& next,
                            const std::optional<fs::path>& output, BlockChoice choice, const Engine& engine,
                            const Execution& execution) {
  const auto file = next.open();
  const auto candidates = base.for_place(next.path, *base.header_of(next.path, *file));
  PlaceChange place{next.path, Kind::added, next.size_bytes, next.executable, {}, std::nullopt};
  place.tensors = diff_file(candidates, next.path, file, output, {choice}, engine, execution);
  file->check_unchanged();
  const DeltaDescription& description = place.tensors->description;
  place.digest = description.result.digest;
  if (base_file != nullptr) {
    const bool same = has_bytes_of_base(description) && base_file->executable == next.executable;
    place.kind = same ? Kind::same : Kind::changed;
  }
  return place;
}

// Commits what one place needs into the directory delta, and says how it is kept.
ListedAs keep(PlaceChange& place, const CheckpointFile& next, const fs::path& target, bool base_has_bytes,
              const Execution& execution) {
  if (base_has_bytes) return ListedAs::same;
  make_directories(target.parent_path());
  if (place.tensors && place.tensors->delta && place.tensors->delta->size_bytes < place.size_bytes) {
    place.tensors->delta->output.commit_as(target, Overwrite::no_rivals, Durability::cached);
    return ListedAs::delta;
  }
  OutputFile output(target);
  write_version(whole_version({place.path, place.size_bytes, place.digest}, next.open(), Fault::local), &output,
                execution);
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
    change.places.push_back(compare_bytes(base_file, file, execution));
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
  change.places.push_back(compare_tensors(base_files, base_file, file, output, choice, engine, execution));
  base_files.check_unchanged();
  if (output) change.places.front().tensors->delta->output.commit(Overwrite::yes, Durability::cached);
  return change;
}

}  // namespace

CheckpointChange diff_checkpoints(const Checkpoint& base, const Checkpoint& next, const std::optional<fs::path>& output,
                                  BlockChoice choice, const Engine& engine, const Execution& execution) {
  execution.progress->begin("comparing", total_bytes(next));
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
  for (const CheckpointFile& file : next.files()) {
    const CheckpointFile* base_file = base.find(file.path);
    const auto target = directory ? std::optional(directory->inside() / k_files_folder / file.path) : std::nullopt;
    if (target) make_directories(target->parent_path());
    PlaceChange place = is_weights(file.path)
                            ? compare_tensors(base_files, base_file, file, target, choice, engine, execution)
                            : compare_bytes(base_file, file, execution);
    if (directory) {
      const bool base_has_bytes = place.kind == Kind::same || (place.tensors && base_file != nullptr &&
                                                               has_bytes_of_base(place.tensors->description));
      const ListedAs as = keep(place, file, *target, base_has_bytes, execution);
      list.files.push_back({{place.path, place.size_bytes, place.digest}, place.executable, as});
    }
    if (place.tensors) place.tensors->delta.reset();
    change.places.push_back(std::move(place));
  }
  for (const CheckpointFile& file : base.files()) {
    if (next.find(file.path) != nullptr) continue;
    change.places.push_back({file.path, Kind::removed, file.size_bytes, file.executable, {}, std::nullopt});
    list.removed.push_back(file.path);
  }
  base_files.check_unchanged();
  std::ranges::sort(change.places, {}, &PlaceChange::path);
  keep_removed_tensors(change.places);
  if (directory) {
    write_file(directory->inside() / k_list_name, to_text(list), Overwrite::no_rivals, Durability::cached);
    directory->commit();
  }
  return change;
}

}  // namespace wdelta
