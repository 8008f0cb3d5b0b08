// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_writer.hpp"

#include "base/error.hpp"
#include "base/kernel_copy.hpp"
#include "base/reader_digest.hpp"
#include "repo/version_finder.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

PullWriter::PullWriter(const Repository& repository, const RecipeGraph& recipes, const LocalFiles& local,
                       std::filesystem::path incoming, const Engine& engine)
    : repository_(&repository),
      incoming_(std::move(incoming)),
      engine_(&engine),
      stored_graph_(recipes),
      graph_(stored_graph_) {
  for (const auto& [place, held] : local.held) {
    graph_.add_at_hand(held.digest);
    at_hand_[held.digest].held = &held;
  }
  graph_.settle();
}

void PullWriter::expect(const ManifestFile& file) {
  if (file.content) return;
  if (!graph_.can_make(file.identity.digest)) throw no_recipe(file.identity.path, file.identity.digest, graph_);
  const RecipeGraph::Sources sources = graph_.sources_of(file.identity.digest);
  for (const Digest& digest : sources.at_hand) at_hand_.at(digest).source.expect();
  for (const std::string& object : sources.objects) objects_[object].expect();
}

std::uint64_t PullWriter::cost(Files files) const {
  std::vector<Digest> digests;
  for (const ManifestFile* file : files) {
    if (!file->content) digests.push_back(file->identity.digest);
  }
  return graph_.cost_together(digests);
}

std::uint64_t PullWriter::spooled_bytes(Files files) const {
  std::vector<const ManifestFile*> spooled;
  std::ranges::copy_if(files, std::back_inserter(spooled), [this](const ManifestFile* file) {
    return incoming_.empty() || whole_object_of(*file) == nullptr;
  });
  return cost(spooled);
}

// What fails here fails once more where it is needed, and is told there.
void PullWriter::fetch_ahead(const ManifestFile& file, const Execution& execution) {
  if (!keeps_objects_open_ || !repository_->store().is_remote() || file.content) return;
  NoProgress silent;
  Execution quietly = execution;
  quietly.progress = &silent;
  std::map<Digest, const Recipe*> recipes;
  graph_.collect(file.identity.digest, recipes);
  std::vector<std::pair<const Recipe*, Source*>> deltas;
  for (const auto& [digest, recipe] : recipes) {
    const auto expected = objects_.find(recipe->bytes.object);
    if (recipe->is_delta && expected != objects_.end()) deltas.emplace_back(recipe, &expected->second);
  }
  const auto look = [&](std::size_t i) {
    const Recipe* recipe = deltas[i].first;
    return deltas[i].second->look([&] { return open(recipe->bytes.object); });
  };
  for_each_read(repository_->store(), deltas.size(), execution.stop, look);
  // The rest of what is large, for which a reader makes several requests by itself.
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    const ObjectRange& bytes = deltas[i].first->bytes;
    if (const auto object = look(i)) digest_of(SliceReader(object, bytes.offset, bytes.length), quietly);
  }
}

FileStamp PullWriter::write(const ManifestFile& file, const std::filesystem::path& path, const Execution& execution,
                            const std::function<void()>& before_replacing) {
  OutputFile output(path, Durability::synced);
  if (file.content) {
    const std::span<const std::uint8_t> bytes = proven_content(file, file.identity.path);
    output.append(bytes);
    execution.progress->advance(bytes.size());
  } else {
    write_bytes(file, output, execution);
  }
  if (file.executable) output.set_executable();
  output.sync();  // first: it may take long
  before_replacing();
  return commit(file, output, path, execution);
}

FileStamp PullWriter::copy(const ManifestFile& file, const std::filesystem::path& held,
                           const std::filesystem::path& path, const Execution& execution) {
  const Digest& digest = file.identity.digest;
  {
    OutputFile output(path, Durability::synced);
    const File from = File::open(held);
    // Should the kernel have copied wrongly, then once more by hand.
    if (kernel_copy(from, output, execution) == digest || copy_and_digest(from, output, execution) == digest) {
      if (file.executable) output.set_executable();
      return commit(file, output, path, execution);
    }
  }
  execution.progress->note(fmt::format("{}: was changed since it was looked at", held.string()));
  return write(file, path, execution);
}

std::shared_ptr<const ByteReader> PullWriter::open(const std::string& object) const {
  return repository_->store().get(object_key(object));
}

FileStamp PullWriter::commit(const ManifestFile& file, OutputFile& output, const std::filesystem::path& path,
                             const Execution& execution) {
  const FileStamp written = output.stamp();
  output.commit(Overwrite::yes, Durability::synced);
  const auto stamp = stamp_of(path);
  if (!stamp) throw changed_meanwhile(path, "removed");
  if (*stamp == written) return *stamp;
  // Somebody has written into it; or it lies on a network, with times that the server gave it.
  NoProgress silent;
  if (digest_of(File::open(path), {execution.threads, &silent, execution.stop}) != file.identity.digest)
    throw changed_meanwhile(path);
  return *stamp;
}

// The object that is the file, where the cheapest way to the file is to fetch just that.
const Recipe* PullWriter::whole_object_of(const ManifestFile& file) const {
  if (file.content) return nullptr;
  const Recipe* recipe = graph_.best(file.identity.digest);
  const bool is_whole = recipe != nullptr && !recipe->is_delta && recipe->bytes.offset == 0 &&
                        object_digest(recipe->bytes.object) == file.identity.digest;
  return is_whole ? recipe : nullptr;
}

bool PullWriter::write_as_it_arrives(const ManifestFile& file, OutputFile& output, const Execution& execution) const {
  const Recipe* recipe = whole_object_of(file);
  if (recipe == nullptr) return false;
  const std::string key = object_key(recipe->bytes.object);
  const auto found = repository_->store().get_into(output, {key, file.identity.size_bytes}, incoming_, execution);
  if (found && *found != file.identity.digest) {
    throw Error(
        Fault::corrupt, repository_->name() + "/" + key,
        fmt::format("is not what it should be: digest {}, {} expected", found->hex(), file.identity.digest.hex()));
  }
  return found.has_value();
}

void PullWriter::add_expected(const std::vector<std::string>& objects, VersionFinder& finder,
                              const Execution& execution) {
  std::vector<std::shared_ptr<const ByteReader>> readers(objects.size());
  for_each_read(repository_->store(), objects.size(), execution.stop, [&](std::size_t i) {
    const auto expected = objects_.find(objects[i]);
    if (expected != objects_.end()) readers[i] = expected->second.take([&] { return open(objects[i]); });
  });
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (readers[i]) finder.add_open(objects[i], std::move(readers[i]));
  }
}

void PullWriter::write_bytes(const ManifestFile& file, OutputFile& output, const Execution& execution) {
  VersionFinder stored(*repository_, stored_graph_, *engine_, execution);
  stored.share(proofs_);
  try {
    if (write_as_it_arrives(file, output, execution)) return;
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt || output.has_failed()) throw;
    stored.go_around(*whole_object_of(file), error, file.identity);
    return stored.write(file.identity, &output);
  }
  const RecipeGraph::Sources sources = graph_.sources_of(file.identity.digest);
  VersionFinder finder(*repository_, graph_, *engine_, execution);
  finder.share(proofs_);
  try {
    for (const Digest& digest : sources.at_hand) {
      AtHand& at_hand = at_hand_.at(digest);
      const CheckpointFile& held = at_hand.held->file;
      finder.add_at_hand({held.path, held.size_bytes, digest}, at_hand.source.take([&] { return held.open(); }));
    }
    if (keeps_objects_open_) add_expected(sources.objects, finder, execution);
    finder.write(file.identity, &output);
  } catch (const Error& error) {
    // Whatever is wrong with what is read, the local files are the first suspects: the repository can do without them.
    if (sources.at_hand.empty() || output.has_failed() || error.fault() == Fault::interrupted) throw;
    execution.progress->note(fmt::format("{}: {}: fetching {} anew", error.object(), error.what(), file.identity.path));
    stored.write(file.identity, &output);
  }
}

}  // namespace wdelta
