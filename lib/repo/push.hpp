// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/engine.hpp"
#include "repo/file_keeper.hpp"
#include "repo/hub_base.hpp"
#include "repo/previous_checkpoint.hpp"
#include "repo/repository.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// What the user says of a new commit.
struct CommitDraft {
  std::string message;
  std::string author;
  std::optional<std::uint64_t> step;
  std::vector<std::pair<std::string, std::string>> meta;
};

/// Whether to store the weights whole too: when the deltas since the last whole one have grown, never, or at once.
enum class AnchorChoice { automatic, never, now };

/// The files of a commit where a caller has them: what a push on top of it compares with. They are believed only once
/// their digests are those of the commit.
struct CommitAtHand {
  Digest commit;
  FilesAtHand files;
};

/// The commit that a checkpoint is read from.
struct CommitSource {
  std::string repository_id;
  Digest commit;
};

struct PushOptions {
  std::string branch = k_main_branch;
  std::optional<std::string> tag;
  AnchorChoice anchor = AnchorChoice::automatic;
  WholeWeights whole = WholeWeights::plain;  ///< of anchors, and of weights without a counterpart in the parent
  std::optional<HubBaseOptions> base;        ///< what a branch without commits begins with
  std::optional<CommitAtHand> at_hand;       ///< looked at where the branch stands at that commit
  std::optional<CommitSource> source;        ///< of the same repository: what it has is not stored again
  std::filesystem::path state_directory;     ///< empty, or of no use: noted, and nothing is kept on this machine
};

/// What a push did, in bytes and counts.
struct PushReport {
  Digest id;                     ///< of the commit that the branch stands at now
  std::optional<Digest> parent;  ///< of that commit
  bool created = false;          ///< false: the tip was this checkpoint already
  std::size_t file_count = 0;
  std::uint64_t checkpoint_bytes = 0;
  std::uint64_t stored_bytes = 0;         ///< objects written, without those of an anchor
  KeptBytes kept;                         ///< the same in detail
  bool compared_with_repository = false;  ///< the previous checkpoint was not at hand
  std::uint64_t anchor_bytes = 0;
  std::optional<HubBaseReport> base;  ///< set when the branch began with it now
};

/// Everything that can be said against a push before the repository is touched: names, texts, and weights that are no
/// safetensors files. Throws what push() would throw.
void check_push(const Checkpoint& checkpoint, const CommitDraft& draft, const PushOptions& options);

/// Makes a commit of `checkpoint` on top of the branch's tip. Pushes from one machine to one branch queue; of two
/// machines the loser's push throws conflict, having lost nothing. The branch moves last, so nobody sees a half-pushed
/// commit. Never writes into the checkpoint; throws local when it changes while it is read.
PushReport push(Repository& repository, const Checkpoint& checkpoint, const CommitDraft& draft,
                const PushOptions& options, const Engine& engine, const Execution& execution);

}  // namespace wdelta
