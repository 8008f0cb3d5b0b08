// SPDX-License-Identifier: Apache-2.0
#include "delta/apply_checkpoint.hpp"

#include "base/leftovers.hpp"
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
using FileStates = std::map<std::string, FileState>;

FileStates states_of(const Checkpoint& base) {
  FileStates states;
  for (const CheckpointFile& file : base.files()) {
    FileIdentity identity{file.path, file.size_bytes, file.digest.value_or(Digest())};
    states[file.path] = {whole_version(std::move(identity), file.open(), Fault::base_mismatch), file.executable,
                         file.digest.has_value()};
  }
  return states;
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

void apply_files(const Checkpoint& base, const std::vector<fs::path>& delta_paths, const fs::path& output_path,
                 const Engine& engine, const Execution& execution) {
  const FileStates base_states = states_of(base);
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
      const auto by_place = base.is_single_file() ? base_states.begin() : base_states.find(wanted.path);
      if (is_made(wanted)) {
        bases.push_back(made->version);
      } else if (by_place != base_states.end()) {
        bases.push_back(require_base(by_place->second, wanted, delta->name()));
      } else {
        throw Error(Fault::base_mismatch, base.name(),
                    fmt::format("has no file {:?}, which {} applies to", wanted.path, delta->name()));
      }
    }
    made = FileState{delta_version(delta, bases, engine)};
  }
  const FileVersion& result = made->version;
  require_replaceable(output_path);
  remove_leftovers_of(output_path);
  require_space_at(output_path, result.identity.size_bytes);
  OutputFile output(output_path);
  execution.progress->begin("applying", result.identity.size_bytes);
  write_version(result, &output, execution);
  output.commit(Overwrite::yes, Durability::cached);
}

FileState apply_listed(const ListedFile& listed, const fs::path& directory, const FileStates& before,
                       const Engine& engine, const Execution& execution) {
  const fs::path kept = directory / k_files_folder / listed.identity.path;
  const auto find_base = [&](const FileIdentity& wanted) {
    const auto found = before.find(wanted.path);
    if (found == before.end()) {
      throw Error(Fault::base_mismatch, directory.string(),
                  fmt::format("applies to a checkpoint with {:?}, which is not there", wanted.path));
    }
    return require_base(found->second, wanted, directory.string());
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
  return {delta_version(delta, bases, engine), listed.executable};
}

void apply_directories(const Checkpoint& base, const std::vector<fs::path>& deltas, const fs::path& output_path,
                       const Engine& engine, const Execution& execution) {
  constexpr std::uint64_t k_longest_list = 1'000'000'000;
  OutputDirectory output(output_path);
  FileStates states = states_of(base);
  for (const fs::path& path : deltas) {
    const fs::path list_path = path / k_list_name;
    const DeltaList list = delta_list_from(read_small_file(list_path, k_longest_list), list_path.string());
    FileStates after;
    for (const ListedFile& listed : list.files) {
      after[listed.identity.path] = apply_listed(listed, path, states, engine, execution);
    }
    states = std::move(after);
  }
  std::vector<FileStates::const_iterator> files;
  std::vector<std::uint64_t> sizes_bytes;
  std::uint64_t total = 0;
  for (auto file = states.cbegin(); file != states.cend(); ++file) {
    files.push_back(file);
    sizes_bytes.push_back(file->second.version.identity.size_bytes);
    total += sizes_bytes.back();
  }
  require_space_at(output_path, total);
  execution.progress->begin("applying", total);
  for_each_place(sizes_bytes, engine, execution, [&](std::size_t index, const Execution& on) {
    const auto& [place, state] = *files[index];
    const fs::path target = output.inside() / place;
    make_directories(target.parent_path());
    OutputFile file(target);
    write_version(state.version, &file, on);
    if (state.executable) file.set_executable();
    file.commit(Overwrite::no_rivals, Durability::cached);
  });
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
