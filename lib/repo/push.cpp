// SPDX-License-Identifier: Apache-2.0
#include "repo/push.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/moment.hpp"
#include "base/path.hpp"
#include "base/reader_digest.hpp"
#include "repo/object_writer.hpp"
#include "repo/previous_checkpoint.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// One value for each key, the last one given, in one order: what was said decides whether two commits are the same.
CommitDraft normalised(const CommitDraft& draft) {
  std::map<std::string, std::string> meta;
  for (const auto& [key, value] : draft.meta) meta[key] = value;
  return {draft.message, draft.author, draft.step, {meta.begin(), meta.end()}};
}

// The commit that a push builds on, and what is known of it.
struct Parent {
  RefState branch;
  std::optional<Commit> commit;
  RecipeGraph recipes;

  Parent(const Repository& repository, const std::string& branch_name)
      : branch(read_ref(repository.store(), RefKind::branch, branch_name)) {
    if (!branch.commit) return;
    commit = repository.commit(*branch.commit);
    recipes = repository.recipes(*commit);
  }
};

class FileKeeper {
 public:
  FileKeeper(Repository& repository, const Parent& parent, PreviousCheckpoint* previous, const Engine& engine,
             const Execution& execution, PushReport& report)
      : store_(&repository.store()),
        parent_(&parent),
        previous_(previous),
        engine_(&engine),
        execution_(&execution),
        report_(&report),
        objects_(repository.store(), execution) {}

  ManifestFile keep(const CheckpointFile& file) {
    const auto reader = file.open();
    ManifestFile kept{{file.path, file.size_bytes, {}}, file.executable, std::nullopt};
    if (is_weights(file.path)) {
      kept.identity.digest = keep_weights(file, reader);
    } else if (file.size_bytes <= ObjectWriter::k_pack_file_bytes) {
      keep_small(*reader, kept);
    } else {
      kept.identity.digest = keep_large(file, *reader);
    }
    // The stamp was taken when the checkpoint was opened: this sees files that were replaced as well.
    if (reader->size_bytes() != file.size_bytes) throw Error(Fault::local, reader->name(), "changed while it was read");
    reader->check_unchanged();
    return kept;
  }

  ObjectWriter& objects() { return objects_; }

 private:
  Digest keep_weights(const CheckpointFile& file, const std::shared_ptr<const ByteReader>& reader) {
    const SafetensorsHeader header = SafetensorsHeader::read(*reader);
    if (previous_ == nullptr || previous_->for_place(file.path, header).empty())
      return objects_.put_whole(*reader, file.path);
    FileChange change = compare(file.path, header, reader);
    report_->element_count += change.description.element_count;
    report_->change_count += change.description.change_count;
    const Digest digest = change.description.result.digest;
    if (has_recipe(digest)) return digest;
    if (change.delta->size_bytes < file.size_bytes) {
      report_->delta_bytes += change.delta->size_bytes;
      objects_.put_delta(std::move(*change.delta), change.description);
    } else if (objects_.put_whole(*reader, file.path) != digest) {
      throw Error(Fault::local, reader->name(), "changed while it was read");
    }
    return digest;
  }

  // Compares with the previous checkpoint, and makes sure that what it was compared with is the parent commit.
  FileChange compare(const std::string& path, const SafetensorsHeader& header,
                     const std::shared_ptr<const ByteReader>& reader) {
    for (;;) {
      FileChange change = diff_file(previous_->for_place(path, header), path, reader, store_->staging_path(),
                                    BlockChoice::automatic, *engine_, *execution_);
      const auto is_parents = [&](const FileIdentity& base) {
        const ManifestFile* file = parent_->commit->manifest.find(base.path);
        return file != nullptr && file->identity == base;
      };
      if (std::ranges::all_of(change.description.base, is_parents)) return change;
      if (!previous_->is_local()) {
        throw Error(Fault::corrupt, path, "the repository does not rebuild it as it was pushed",
                    "run wdelta verify REPO");
      }
      execution_->progress->note(
          "the previous checkpoint was changed since it was pushed: comparing with the repository");
      previous_->distrust();
    }
  }

  void keep_small(const ByteReader& reader, ManifestFile& kept) {
    const std::vector<std::uint8_t> bytes = read_all(reader);
    kept.identity.digest = blake3(bytes);
    std::string content(bytes.begin(), bytes.end());
    if (bytes.size() <= k_inline_file_bytes && inlined_bytes_ + bytes.size() <= k_inline_total_bytes) {
      inlined_bytes_ += bytes.size();
      kept.content = std::move(content);
    } else if (!has_recipe(kept.identity.digest)) {
      objects_.put_packed(std::move(content), kept.identity.digest);
    }
    execution_->progress->advance(bytes.size());
  }

  Digest keep_large(const CheckpointFile& file, const ByteReader& reader) {
    const ManifestFile* before = parent_->commit ? parent_->commit->manifest.find(file.path) : nullptr;
    if (before != nullptr && before->identity.size_bytes == file.size_bytes) {
      const Digest digest = digest_of(reader, *execution_);
      if (has_recipe(digest)) return digest;
    }
    return objects_.put_whole(reader, file.path);
  }

  // A small file may be known to the parent only as content of its manifest, which is no recipe.
  bool has_recipe(const Digest& digest) const { return parent_->recipes.can_make(digest); }

  Store* store_;
  const Parent* parent_;
  PreviousCheckpoint* previous_;
  const Engine* engine_;
  const Execution* execution_;
  PushReport* report_;
  ObjectWriter objects_;
  std::size_t inlined_bytes_ = 0;
};

bool is_same_commit(const Manifest& tip, const Manifest& next) {
  const auto same_file = [](const ManifestFile& a, const ManifestFile& b) {
    return a.identity == b.identity && a.executable == b.executable;
  };
  return tip.step == next.step && tip.meta == next.meta && std::ranges::equal(tip.files, next.files, same_file);
}

std::vector<Recipe> book_for(const Manifest& manifest, RecipeGraph graph, const std::vector<Recipe>& added) {
  graph.add(added);
  graph.settle();
  std::vector<Digest> files;
  for (const ManifestFile& file : manifest.files) {
    if (!file.content) files.push_back(file.identity.digest);
  }
  return graph.book_for(files, k_recent_ancestors);
}

Digest digest_of_text(const std::string& text) {
  return blake3(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void put_book(Store& store, const Digest& commit, const std::string& text) {
  store.put("recipes/" + commit.hex() + "/" + digest_of_text(text).hex() + ".json", text);
}

// An anchor pays when a reader that has nothing would fetch more in deltas than in whole files, or has to apply more of
// them than can be called quick.
bool wants_anchor(const RecipeGraph& graph, const FileIdentity& file) {
  constexpr std::uint64_t k_longest_chain = 64;
  return graph.chain_length(file.digest) >= k_longest_chain || graph.cost(file.digest) > 2 * file.size_bytes;
}

std::uint64_t put_anchor(Repository& repository, const Commit& commit, const Checkpoint& checkpoint,
                         AnchorChoice choice, const Execution& execution) {
  const RecipeGraph graph = repository.recipes(commit);
  ObjectWriter objects(repository.store(), execution);
  for (const ManifestFile& file : commit.manifest.files) {
    const Digest& digest = file.identity.digest;
    if (file.content || !graph.can_make(digest) || graph.chain_length(digest) == 0) continue;
    if (choice != AnchorChoice::now && !wants_anchor(graph, file.identity)) continue;
    execution.progress->begin("storing an anchor", file.identity.size_bytes);
    if (objects.put_whole(*checkpoint.find(file.identity.path)->open(), file.identity.path) != digest) {
      throw Error(Fault::local, file.identity.path, "changed while an anchor was made of it",
                  "the commit itself is safe");
    }
  }
  if (!objects.recipes().empty()) put_book(repository.store(), commit.id, to_text(objects.recipes()));
  return objects.stored_bytes();
}

// Where the tag that the new commit is to have stands now. It must be free, or name the commit already.
RefState read_free_tag(const Repository& repository, const std::string& tag, const std::optional<Digest>& commit) {
  const RefState state = read_ref(repository.store(), RefKind::tag, tag);
  if (state.commit && state.commit != commit) {
    throw Error(Fault::conflict, tag, "there is a tag of that name already",
                "wdelta tag REPO TAG REV --force moves it");
  }
  return state;
}

void put_tag(Repository& repository, const std::optional<std::string>& tag, const Digest& commit) {
  if (!tag) return;
  const RefState state = read_free_tag(repository, *tag, commit);
  if (!state.commit) move_ref(repository.store(), RefKind::tag, *tag, state, commit);
}

// A saver that replaces files one after the other would leave a commit of two steps: no single file shows that.
void require_unchanged(const Checkpoint& checkpoint) {
  if (checkpoint.files().empty() || !checkpoint.files().front().stamp) return;
  const Checkpoint now = Checkpoint::open(checkpoint.name());
  const auto same = [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.path == b.path && a.stamp == b.stamp;
  };
  if (std::ranges::equal(checkpoint.files(), now.files(), same)) return;
  throw Error(Fault::local, checkpoint.name(), "changed while it was pushed", "push it once it is written");
}

void remember(const fs::path& path, const Commit& commit, const Checkpoint& checkpoint,
              const Execution& execution) try {
  PushState state{commit.id, fs::absolute(checkpoint.name()), {}};
  for (const CheckpointFile& file : checkpoint.files()) {
    if (file.stamp) state.stamps[file.path] = *file.stamp;
  }
  save_push_state(path, state);
} catch (const Error& error) {
  execution.progress->note(
      fmt::format("{}: {}: the next push will compare with the repository", error.object(), error.what()));
}

}  // namespace

void check_push(const Checkpoint& checkpoint, const CommitDraft& draft, const PushOptions& options) {
  const auto require_name = [](const char* what, const std::string& name) {
    if (const char* reason = why_not_a_ref_name(name))
      throw Error(Fault::usage, name, fmt::format("{} name {}", what, reason));
  };
  const auto require_text = [](const char* what, const std::string& text) {
    if (!is_utf8(text)) throw Error(Fault::usage, what, "is not UTF-8");
  };
  require_name("branch", options.branch);
  if (options.tag) require_name("tag", *options.tag);
  require_text("message", draft.message);
  require_text("author", draft.author);
  for (const auto& [key, value] : draft.meta) require_text("meta", key + value);
  for (const CheckpointFile& file : checkpoint.files()) {
    if (is_weights(file.path)) SafetensorsHeader::read(*file.open());
  }
}

PushReport push(Repository& repository, const Checkpoint& checkpoint, const CommitDraft& given,
                const PushOptions& options, const Engine& engine, const Execution& execution) {
  check_push(checkpoint, given, options);
  const CommitDraft draft = normalised(given);
  const fs::path state_path = push_state_path(options.state_directory, repository.id(), options.branch);
  make_directories(state_path.parent_path());
  const FileLock lock(state_path.string() + ".lock", "waiting for another push to this branch", execution);

  PushReport report;
  const Parent parent(repository, options.branch);
  if (options.tag) read_free_tag(repository, *options.tag, parent.branch.commit);
  std::optional<PreviousCheckpoint> previous;
  if (parent.commit) {
    previous.emplace(repository, *parent.commit, parent.recipes, load_push_state(state_path), engine, execution);
    report.parent = parent.commit->id;
    report.compared_with_repository = !previous->is_local();
    if (!previous->is_local()) {
      execution.progress->note(
          "the previous checkpoint is not where it was pushed from, or was changed: comparing with the repository");
    }
  }

  Commit commit;
  Manifest& manifest = commit.manifest;
  manifest = {report.parent, now_text(), draft.author, draft.message, draft.step, draft.meta, {}, {}, {}};
  for (const CheckpointFile& file : checkpoint.files()) report.checkpoint_bytes += file.size_bytes;
  execution.progress->begin("pushing", report.checkpoint_bytes);
  FileKeeper keeper(repository, parent, previous ? &*previous : nullptr, engine, execution, report);
  for (const CheckpointFile& file : checkpoint.files()) manifest.files.push_back(keeper.keep(file));
  keeper.objects().finish();
  require_unchanged(checkpoint);
  report.file_count = manifest.files.size();
  report.stored_bytes = keeper.objects().stored_bytes();
  if (parent.commit && is_same_commit(parent.commit->manifest, manifest)) {
    report.id = parent.commit->id;
    put_tag(repository, options.tag, report.id);
    remember(state_path, *parent.commit, checkpoint, execution);
    return report;
  }

  if (parent.commit) manifest.ancestors = ancestors_of_child(parent.commit->id, parent.commit->manifest);
  const std::string book = to_text(book_for(manifest, parent.recipes, keeper.objects().recipes()));
  manifest.recipes = digest_of_text(book);
  const std::string text = to_text(manifest);
  commit.id = report.id = digest_of_text(text);
  if (options.tag) read_free_tag(repository, *options.tag, commit.id);
  put_book(repository.store(), commit.id, book);
  repository.store().put(commit_key(commit.id), text);
  move_ref(repository.store(), RefKind::branch, options.branch, parent.branch, commit.id);
  report.created = true;
  remember(state_path, commit, checkpoint, execution);
  put_tag(repository, options.tag, commit.id);
  if (options.anchor != AnchorChoice::never) {
    try {
      report.anchor_bytes = put_anchor(repository, commit, checkpoint, options.anchor, execution);
    } catch (const Error& error) {
      // The commit is safe and complete without it; an anchor only makes it cheaper to fetch.
      if (options.anchor == AnchorChoice::now || error.fault() == Fault::interrupted) throw;
      execution.progress->note(fmt::format("no anchor was stored: {}: {}", error.object(), error.what()));
    }
  }
  return report;
}

}  // namespace wdelta
