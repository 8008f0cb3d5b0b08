// SPDX-License-Identifier: Apache-2.0
// A repository, hosts that push to it and directories that are pulled into, all in a scratch directory.
#pragma once

#include "repo/pull.hpp"
#include "repo/push.hpp"
#include "repo/verify.hpp"
#include "testing/execution.hpp"
#include "testing/safetensors_file.hpp"
#include "testing/scratch.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace wdelta::testing {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

/// Writes a checkpoint of two shards, an index, side files of all sizes, at step `step`. Files come and go with steps.
inline void write_checkpoint(const fs::path& directory, int step) {
  std::mt19937_64 random(1);
  std::vector<TestTensor> tensors;
  for (const char* name : {"a", "b", "c"}) tensors.push_back(random_tensor(name, {"BF16", 16}, 8'000, random));
  for (TestTensor& tensor : tensors) {
    for (int i = 0; i < 100; ++i) tensor.bytes[static_cast<std::size_t>(2 * (50 * i + step))] ^= 1;
  }
  put_file(directory / "model-1.safetensors", safetensors_file({tensors[0]}));
  put_file(directory / "model-2.safetensors", safetensors_file({tensors[1], tensors[2]}));
  put_file(
      directory / "model.safetensors.index.json",
      R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"},"step":)" + std::to_string(step) + "}");
  put_file(directory / "config.json", "{\"step\":" + std::to_string(step) + "}");
  put_file(directory / "tokenizer.json", std::string(80'000, 't'));  // too large to be inlined, so it is packed
  put_file(directory / "trainer/state", "step " + std::to_string(step));
  put_file(directory / ("only-" + std::to_string(step) + ".txt"), "x");
  if (step % 2 == 1) put_file(directory / "draft.safetensors", safetensors_file({tensors[0]}, "{}"));
}

inline Files commit_files(int step) {
  const ScratchDirectory scratch;
  write_checkpoint(scratch / "c", step);
  return files_below(scratch / "c");
}

class World {
 public:
  World() { fs::create_directories(repository_path()); }

  fs::path operator/(std::string_view name) const { return scratch_ / name; }
  fs::path repository_path() const { return scratch_ / "repository"; }
  Repository repository() const { return Repository::open_or_create(repository_path()); }
  /// Everything that is stored, by key.
  Files stored() const { return files_below(repository_path()); }

  /// The checkpoint of a step as a training run left it, written on the first call.
  fs::path checkpoint(int step) const {
    const fs::path path = scratch_ / ("step-" + std::to_string(step));
    if (!fs::exists(path)) write_checkpoint(path, step);
    return path;
  }

  PushReport push(const fs::path& checkpoint, PushOptions options, CommitDraft draft,
                  const Execution& execution) const {
    if (options.state_directory.empty()) options.state_directory = scratch_ / "host";
    Repository to = repository();
    return wdelta::push(to, Checkpoint::open(checkpoint), draft, options, best_engine(), execution);
  }
  PushReport push(const fs::path& checkpoint) const { return push(checkpoint, {}, {}, SilentExecution()); }
  Digest push_step(int step, AnchorChoice anchor = AnchorChoice::never, const std::string& host = "host") const {
    PushOptions options;
    options.anchor = anchor;
    options.state_directory = scratch_ / host;
    CommitDraft draft;
    draft.message = "at step " + std::to_string(step);
    draft.step = step;
    return push(checkpoint(step), options, draft, SilentExecution()).id;
  }

  PullReport pull(const std::string& revision, const fs::path& directory, const Execution& execution,
                  LocalChanges local_changes = LocalChanges::refuse) const {
    const Repository from = repository();
    return wdelta::pull(from, from.commit(from.resolve(revision)), directory, local_changes, best_engine(), execution);
  }
  PullReport pull(const std::string& revision, const fs::path& directory,
                  LocalChanges local_changes = LocalChanges::refuse) const {
    return pull(revision, directory, SilentExecution(), local_changes);
  }

  /// What a check of everything that is stored finds, as text.
  std::vector<std::string> verify() const {
    const VerifyReport report = verify_repository(repository(), VerifyDepth::deep, engines().back(), SilentExecution());
    std::vector<std::string> found;
    for (const Finding& finding : report.findings) found.push_back(finding.object + ": " + finding.what);
    for (const Unseen& unseen : report.unseen) found.push_back(unseen.object + ": " + unseen.what);
    return found;
  }

 private:
  ScratchDirectory scratch_;
};

}  // namespace wdelta::testing
