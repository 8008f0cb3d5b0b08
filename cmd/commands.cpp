// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

namespace wdelta::cmd {

namespace {
// In the order of the help.
constexpr Command k_commands[] = {
    {"diff", "what changed between two checkpoints; with -o, write it as a delta", add_diff},
    {"apply", "rebuild a checkpoint from a base and one or more deltas", add_apply},
    {"push", "commit a checkpoint to a repository", add_push},
    {"pull", "make a directory exactly one commit", add_pull},
    {"log", "the history of a repository", add_log},
    {"show", "one commit: its files and how each would be fetched", add_show},
    {"verify", "prove a directory, a commit, a repository or a delta", add_verify},
    {"squash", "fold a stretch of the history into one delta or an anchor", add_squash},
    {"gc", "remove what nothing needs any more", add_gc},
    {"stats", "what a repository holds, and what that takes", add_stats},
    {"branch", "list branches, make one, move one to another commit, or delete one", add_branch},
    {"tag", "name a commit, list the names, or delete one", add_tag},
    {"help", "open the manual of a command", add_help},
};
}  // namespace

std::span<const Command> commands() { return k_commands; }

}  // namespace wdelta::cmd
