// SPDX-License-Identifier: Apache-2.0
// Model repositories on the Hugging Face Hub, to read from: what a repository of ours may begin with.
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/access.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// Why `name` may not be the name of a namespace, a bucket or a model on the Hub, or null when it may.
const char* why_not_a_hub_name(std::string_view name);

/// A model as a user names it: hf://NAMESPACE/NAME[@REVISION].
struct ModelRevision {
  std::string model;  ///< NAMESPACE/NAME
  std::string revision = "main";

  /// Throws usage, naming `location`, when it is none.
  static ModelRevision parse(const std::string& location);
};

/// A model at one commit, which never changes.
struct ModelCommit {
  std::string model;
  std::string commit;  ///< 40 hexadecimal digits

  auto operator<=>(const ModelCommit&) const = default;
  /// hf://NAMESPACE/NAME@COMMIT
  std::string name() const { return "hf://" + model + "@" + commit; }
};

/// A file in a model at a commit.
struct ModelFile {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::string etag;      ///< what the Hub knows the content by: its SHA-256, 64 digits, or its git blob's id, 40 digits
  std::string xet_hash;  ///< empty: the Hub keeps it in git, not in its content store

  bool operator==(const ModelFile&) const = default;
};
bool is_model_etag(std::string_view text);

/// Makes the etag of bytes that come in order, to be compared with that of a ModelFile.
class EtagHash {
 public:
  virtual ~EtagHash() = default;
  virtual void update(std::span<const std::uint8_t> bytes) = 0;
  virtual std::string finish() = 0;
};

/// Reads models. Safe to use from several threads. Throws not_found when there is no such model or revision, or the
/// token may not see it; network for all that goes wrong on the way, and when access was not granted.
class ModelHub {
 public:
  virtual ~ModelHub() = default;

  struct Resolved {
    ModelCommit at;    ///< under the name that the model has now
    std::string time;  ///< of that commit, as now_text() writes it; empty when the Hub does not say
  };
  /// What a revision, which may move, stands for now.
  virtual Resolved resolve(const ModelRevision& revision) const = 0;
  virtual std::vector<ModelFile> list(const ModelCommit& at) const = 0;
  /// Those of the paths that are there.
  virtual std::vector<ModelFile> look_up(const ModelCommit& at, std::span<const std::string> paths) const = 0;
  /// Null when there is no such file. What is small comes at once, the rest as it is read.
  virtual std::shared_ptr<const ByteReader> open(const ModelCommit& at, const std::string& path) const = 0;
  /// Where the Hub's own client may have left that file on this machine; its bytes are still to be proven.
  virtual std::optional<std::filesystem::path> downloaded(const ModelCommit& at, const std::string& path) const = 0;
  /// For bytes that should be those of `file`.
  virtual std::unique_ptr<EtagHash> hash_for(const ModelFile& file) const = 0;
};

/// Nothing is sent before something is asked for. Throws unsupported in a build without the network.
std::unique_ptr<const ModelHub> open_model_hub(const Access& access, const Execution& execution);

}  // namespace wdelta
