// SPDX-License-Identifier: Apache-2.0
#include "delta/apply_checkpoint.hpp"

#include "base/leftovers.hpp"
#include "base/output_directory.hpp"
#include "base/output_file.hpp"
#include "base/parallel.hpp"
#include "base/space.hpp"
#include "delta/delta_list.hpp"
#include "delta/file_version.hpp"
#include "delta/place_turns.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// A file on the way from base to result. What a file of the base must be is known only once a delta names it.
struct FileState {
  FileVersion version;
  bool executable = false;
  bool digest_known = true;
};
FileState state_of(const CheckpointFile& file) {
  FileIdentity identity{file.path, file.size_bytes, file.digest.value_or(Digest())};
  return {whole_version(std::move(identity), file.open(), Fault::base_mismatch), file.executable,
          file.digest.has_value()};
}

// `state` as the base that a delta wants. For a file of the base this takes the delta's word for its digest, which is
// checked when the file is read.
FileVersion require_base(FileState state, const FileIdentity& wanted, const std::string& delta) {
  const FileIdentity& found = state.version.identity;
  if (found.size_bytes != wanted.size_bytes || (state.digest_known && found.digest != wanted.digest)) {
    const auto describe = [&](const FileIdentity& file) {
      return found.size_bytes != wanted.size_bytes ? fmt::format("of {} bytes", file.size_bytes)
                                                   : "with digest " + file.digest.hex();
    };
    throw Error(
        Fault::base_mismatch, delta,
        fmt::format("applies to a file {:?} {}, but finds one {}", wanted.path, describe(wanted), describe(found)),
        "give the deltas in order, oldest first, and the checkpoint that the first was made from");
  }
  state.version.identity.digest = wanted.digest;
  if (!state.digest_known) state.version.origins.front().digest = wanted.digest;
  return state.version;
}

std::shared_ptr<const DeltaReader> open_delta(const fs::path& path, const Execution& execution) {
  auto delta = std::make_shared<DeltaReader>(DeltaReader::open(std::make_shared<File>(File::open(path))));
  delta->check_payload(execution);
  return delta;
}

// Side by side: headers take long to read, and a delta alone is too small for several threads.
std::vector<std::shared_ptr<const DeltaReader>> open_deltas(const std::vector<fs::path>& paths,
                                                            const Execution& execution) {
  std::vector<std::shared_ptr<const DeltaReader>> deltas(paths.size());
  const Execution of_one = paths.size() == 1 ? execution : execution.on(1);
  parallel_for(paths.size(), execution,
               [&] { return [&](std::size_t index) { deltas[index] = open_delta(paths[index], of_one); }; });
  return deltas;
}

// What `delta` makes. A base may be so wrong that its header cannot be read: then it is the base that is wrong.
FileVersion apply_to(const std::vector<FileVersion>& bases, const std::shared_ptr<const DeltaReader>& delta,
                     const Engine& engine, const Execution& execution) try {
  return delta_version(delta, bases, engine);
} catch (const Error& error) {
  if (error.fault() == Fault::corrupt) {
    for (const FileVersion& base : bases) require_origins(base.origins, execution);
  }
  throw;
}

void apply_files(const Checkpoint& base, const std::vector<fs::path>& delta_paths, const fs::path& output_path,
                 const Engine& engine, const Execution& execution) {
  std::optional<FileState> made;  // by the delta before
  for (const auto& delta : open_deltas(delta_paths, execution)) {
    const std::vector<FileIdentity>& all_wanted = delta->description().base;
    const auto is_made = [&](const FileIdentity& wanted) {
      return made && made->version.identity.digest == wanted.digest;
    };
    // Each goes on from the one right before it: from an earlier one, what lies between would be left out or come
    // twice. One that takes nothing from its base names none.
    if (made && !all_wanted.empty() && std::ranges::none_of(all_wanted, is_made))
      require_base(*made, all_wanted.front(), delta->name());
    std::vector<FileVersion> bases;
    for (const FileIdentity& wanted : all_wanted) {
      const CheckpointFile* by_place = base.is_single_file() ? &base.files().front() : base.find(wanted.path);
      if (is_made(wanted)) {
        bases.push_back(made->version);
      } else if (by_place != nullptr) {
        bases.push_back(require_base(state_of(*by_place), wanted, delta->name()));
      } else {
        throw Error(Fault::base_mismatch, base.name(),
                    fmt::format("has no file {:?}, which {} applies to", wanted.path, delta->name()));
      }
    }
    made = FileState{apply_to(bases, delta, engine, execution)};
  }
  const FileVersion& result = made->version;
  require_replaceable(output_path);
  remove_leftovers_of(output_path);
  require_space_at(output_path, result.identity.size_bytes);
  OutputFile output(output_path);
  output.take_permissions_of(output_path);
  execution.progress->begin("applying", result.identity.size_bytes);
  write_version(result, &output, execution);
  output.commit(Overwrite::yes, Durability::cached);
}

// A checkpoint and what directories of deltas make of it. What a place comes from is opened when it is asked for, and
// closed with the answer: there may be more files than can be open at a time.
class Chain {
 public:
  Chain(const Checkpoint& base, const std::vector<fs::path>& directories, const Engine& engine)
      : directories_(&directories), engine_(&engine) {
    constexpr std::uint64_t k_longest_list = 1'000'000'000;
    for (const CheckpointFile& file : base.files()) base_[file.path] = &file;
    lists_.reserve(directories.size());  // pointed into
    for (const fs::path& directory : directories) {
      const fs::path list_path = directory / k_list_name;
      if (!fs::exists(list_path)) {
        throw Error(Fault::not_found, directory.string(), fmt::format("is no delta: it has no {}", k_list_name),
                    "wdelta diff OLD NEW -o DELTA makes one");
      }
      lists_.push_back(delta_list_from(read_small_file(list_path, k_longest_list), list_path.string()));
      std::map<std::string, const ListedFile*>& places = places_.emplace_back();
      for (const ListedFile& listed : lists_.back().files) places[listed.identity.path] = &listed;
    }
  }

  /// What the last directory makes, in the order of their places.
  const std::map<std::string, const ListedFile*>& results() const { return places_.back(); }
  /// Throws base_mismatch where a directory was made from another checkpoint than the one before makes.
  FileState make(const ListedFile& result, const Execution& execution) const {
    NoProgress silent;  // what counts is what is written
    Execution quietly = execution;
    quietly.progress = &silent;
    Made made;
    return make(places_.size() - 1, result, made, quietly);
  }

 private:
  // By how many directories were applied, and place: several files may be made from one.
  using Made = std::map<std::pair<std::size_t, std::string>, FileState>;

  FileState make(std::size_t index, const ListedFile& listed, Made& made, const Execution& execution) const {
    const fs::path& directory = (*directories_)[index];
    const fs::path kept = directory / k_files_folder / listed.identity.path;
    std::error_code error;
    if (listed.as != ListedAs::same && fs::status(kept, error).type() == fs::file_type::not_found) {
      throw Error(Fault::corrupt, kept.string(), fmt::format("is missing, and {} lists it", k_list_name));
    }
    const auto find_base = [&](const FileIdentity& wanted) {
      return require_base(before(index, wanted.path, made, execution), wanted, directory.string());
    };
    switch (listed.as) {
      case ListedAs::same:
        return {find_base(listed.identity), listed.executable};
      case ListedAs::file:
        return {whole_version(listed.identity, std::make_shared<File>(File::open(kept)), Fault::corrupt),
                listed.executable};
      case ListedAs::delta:
        break;
    }
    const auto delta = open_delta(kept, execution);
    if (delta->description().result != listed.identity) {
      throw Error(Fault::corrupt, delta->name(), "makes another file than the list beside it says");
    }
    std::vector<FileVersion> bases;
    for (const FileIdentity& wanted : delta->description().base) bases.push_back(find_base(wanted));
    return {apply_to(bases, delta, *engine_, execution), listed.executable};
  }

  // What directory `index` finds at `place`.
  const FileState& before(std::size_t index, const std::string& place, Made& made, const Execution& execution) const {
    if (const auto found = made.find({index, place}); found != made.end()) return found->second;
    const auto require = [&](const auto& places) {
      const auto found = places.find(place);
      if (found == places.end()) {
        throw Error(Fault::base_mismatch, (*directories_)[index].string(),
                    fmt::format("applies to a checkpoint with {:?}, which is not there", place));
      }
      return found->second;
    };
    FileState state =
        index == 0 ? state_of(*require(base_)) : make(index - 1, *require(places_[index - 1]), made, execution);
    return made.emplace(std::pair(index, place), std::move(state)).first->second;
  }

  const std::vector<fs::path>* directories_;
  const Engine* engine_;
  std::map<std::string, const CheckpointFile*> base_;
  std::vector<DeltaList> lists_;
  std::vector<std::map<std::string, const ListedFile*>> places_;  // of each list
};

void apply_directories(const Checkpoint& base, const std::vector<fs::path>& deltas, const fs::path& output_path,
                       const Engine& engine, const Execution& execution) {
  OutputDirectory output(output_path);
  const Chain chain(base, deltas, engine);
  std::vector<const ListedFile*> files;
  std::vector<std::uint64_t> sizes_bytes;
  std::uint64_t total = 0;
  for (const auto& [place, listed] : chain.results()) {
    files.push_back(listed);
    sizes_bytes.push_back(listed->identity.size_bytes);
    total += sizes_bytes.back();
  }
  require_space_at(output_path, total);
  execution.progress->begin("applying", total);
  OriginProofs proofs;
  const auto write = [&](std::size_t index, const Execution& on) {
    const FileState state = chain.make(*files[index], on);
    const fs::path target = output.inside() / files[index]->identity.path;
    make_directories(target.parent_path());
    OutputFile file(target);
    write_version(state.version, &file, on, proofs);
    if (state.executable) file.set_executable();
    file.commit(Overwrite::no_rivals, Durability::cached);
  };
  try {
    for_each_place(sizes_bytes, engine, execution, write, {.writes_file = true});
  } catch (const Error& error) {
    throw output.as_named(error);
  }
  output.commit();
}

}  // namespace

void apply_checkpoint(const Checkpoint& base, const std::vector<fs::path>& deltas, const fs::path& output,
                      const Engine& engine, const Execution& execution) {
  execution.progress->begin("reading deltas", 0);
  std::size_t directories = 0;
  for (const fs::path& path : deltas) directories += fs::is_directory(path) ? 1 : 0;
  if (directories == 0) return apply_files(base, deltas, output, engine, execution);
  if (directories != deltas.size()) {
    const auto file = std::ranges::find_if(deltas, [](const fs::path& path) { return !fs::is_directory(path); });
    throw Error(Fault::usage, file->string(), "is a file, other deltas are of directories: they cannot be mixed");
  }
  if (base.is_single_file()) {
    throw Error(Fault::usage, base.name(), "is a file, the deltas are of directories", "give the checkpoint directory");
  }
  apply_directories(base, deltas, output, engine, execution);
}

}  // namespace wdelta
