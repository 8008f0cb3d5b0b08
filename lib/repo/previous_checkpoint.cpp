// SPDX-License-Identifier: Apache-2.0
#include "repo/previous_checkpoint.hpp"

#include "base/error.hpp"

namespace wdelta {

PreviousCheckpoint::PreviousCheckpoint(const Repository& repository, const Commit& parent, const RecipeGraph& graph,
                                       const std::optional<PushState>& state, const Engine& engine,
                                       const Execution& execution)
    : parent_(&parent), finder_(repository.store(), graph, engine, execution) {
  if (state && state->commit == parent.id) state_ = state;
  open();
}

void PreviousCheckpoint::distrust() {
  state_.reset();
  open();
}

void PreviousCheckpoint::open() {
  local_files_ = 0;
  std::vector<CheckpointFile> files;
  for (const ManifestFile& file : parent_->manifest.files) {
    const FileIdentity& identity = file.identity;
    if (!is_weights(identity.path)) continue;
    CheckpointFile opened{identity.path, identity.size_bytes, file.executable, {}, std::nullopt, identity.digest};
    const auto local = state_ ? local_file(identity.path) : std::nullopt;
    if (local) {
      ++local_files_;
      opened.open = [path = *local]() -> std::shared_ptr<const ByteReader> {
        return std::make_shared<File>(File::open(path));
      };
    } else {
      opened.open = [this, identity] { return finder_.find(identity).reader(); };
    }
    files.push_back(std::move(opened));
  }
  files_.emplace(Checkpoint(parent_->id.hex(), std::move(files)));
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
