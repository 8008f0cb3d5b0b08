// SPDX-License-Identifier: Apache-2.0
#include "repo/previous_checkpoint.hpp"

#include "base/error.hpp"
#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

PreviousCheckpoint::PreviousCheckpoint(const Repository& repository, const Commit& parent, const RecipeGraph& graph,
                                       const std::optional<PushState>& state, const Engine& engine,
                                       const Execution& execution, FilesAtHand at_hand)
    : parent_(&parent), graph_(&graph), finder_(repository, graph, engine, execution), at_hand_(std::move(at_hand)) {
  if (state && state->commit == parent.id) state_ = state;
  try {
    open();
  } catch (const Error& error) {
    if (!may_be_to_blame_for(error)) throw;
    distrust();
  }
}

bool PreviousCheckpoint::may_be_to_blame_for(const Error& error) const {
  if (!is_local() || error.fault() == Fault::interrupted) return false;
  return error.fault() == Fault::corrupt || has_changed();
}

void PreviousCheckpoint::distrust() {
  state_.reset();
  at_hand_.clear();
  open();
}

bool PreviousCheckpoint::has_changed() const {
  return std::ranges::any_of(stamps_, [](const auto& local) {
    const auto& [path, stamp] = local;
    try {
      return stamp_of(path) != stamp;
    } catch (const Error&) {
      return true;
    }
  });
}

void PreviousCheckpoint::open() {
  file_count_ = local_files_ = 0;
  stamps_.clear();
  opaque_files_.clear();
  std::vector<CheckpointFile> files;
  for (const ManifestFile& file : parent_->manifest.files) {
    const FileIdentity& identity = file.identity;
    if (file.content) continue;
    ++file_count_;
    CheckpointFile opened{identity.path, identity.size_bytes, file.executable, {}, std::nullopt, identity.digest};
    const auto local = state_ ? local_file(identity.path) : std::nullopt;
    const auto at_hand = at_hand_.find(identity.path);
    if (at_hand != at_hand_.end()) {
      ++local_files_;
      opened.open = at_hand->second;
    } else if (local) {
      ++local_files_;
      const FileStamp& stamp = stamps_[*local] = state_->stamps.at(identity.path);
      opened.open = [path = *local, stamp]() -> std::shared_ptr<const ByteReader> {
        auto opened_file = std::make_shared<File>(File::open(path));
        if (opened_file->stamp() != stamp) throw Error(Fault::local, path.string(), "was changed since it was pushed");
        return opened_file;
      };
    } else if (graph_->can_make(identity.digest)) {
      opened.open = [this, identity] { return finder_.find(identity).reader(); };
    } else {
      continue;  // lost: what is compared with nothing is stored whole
    }
    (is_weights(identity.path) ? files : opaque_files_).push_back(std::move(opened));
  }
  files_.emplace(Checkpoint(parent_->id.hex(), std::move(files)));
}

std::optional<OpaqueBase> PreviousCheckpoint::opaque_for(const std::string& path) const {
  const auto likeness = [&](const CheckpointFile& file) { return likeness_of_places(file.path, path); };
  const auto best = std::ranges::max_element(opaque_files_, {}, likeness);
  if (best == opaque_files_.end() || !likeness(*best).same_but_numbers) return std::nullopt;
  return OpaqueBase{best->path, best->open()};
}

std::optional<std::filesystem::path> PreviousCheckpoint::local_file(const std::string& place) const try {
  const auto known = state_->stamps.find(place);
  if (known == state_->stamps.end()) return std::nullopt;
  // The checkpoint may have been a single file, whose place is its name.
  std::filesystem::path path = state_->checkpoint / place;
  if (std::filesystem::is_regular_file(state_->checkpoint)) path = state_->checkpoint;
  return stamp_of(path) == known->second ? std::optional(path) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace wdelta
