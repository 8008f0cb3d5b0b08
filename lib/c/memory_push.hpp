// SPDX-License-Identifier: Apache-2.0
// What a wdelta_push stands for: tensors and files that were added, and how they become a commit.
#pragma once

#include "c/open_repository.hpp"
#include "c/tensor.hpp"
#include "checkpoint/checkpoint.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace wdelta {

class MemoryPush {
 public:
  MemoryPush(std::shared_ptr<OpenRepository> repository, const wdelta_push_options& options);
  ~MemoryPush();
  MemoryPush(const MemoryPush&) = delete;
  MemoryPush& operator=(const MemoryPush&) = delete;

  /// `release` is called once the tensor's memory is not needed any more, unless this throws.
  void add(const GivenTensor& tensor, std::function<void()> release = {});
  void add_file(const std::string& path, std::vector<std::uint8_t> bytes);
  void set_meta(const std::string& key, const std::string& value);
  /// Null takes it away.
  void set_file_metadata(const std::string& key, const char* value);
  wdelta_push_report commit();
  void cancel() { watched_.stop.request_stop(); }

 private:
  enum class Tensors { copied, borrowed };
  struct Added {
    TensorShape shape;
    std::shared_ptr<const ByteReader> bytes;
    std::function<void()> release;
  };

  // Those that one file, or its shards, are made of.
  struct Group {
    std::vector<Added> tensors;
    std::set<std::string> names;
  };

  Execution execution() { return watched_.execution(repository_->threads()); }
  void require_open() const;
  MemoryFiles files(const Execution& execution) const;
  void keep_reference(ReferenceCopy& reference, const Digest& commit, const MemoryFiles& files,
                      const Execution& execution);
  void release();

  std::shared_ptr<OpenRepository> repository_;
  Watched watched_;
  CommitDraft draft_;
  PushOptions options_;
  Tensors tensors_;
  bool keeps_reference_;
  std::shared_ptr<HostMemories> memories_;  // null where no copy stays on the host
  Device* device_;                          // where copies are kept; null: on the host
  std::string weights_path_;
  std::uint64_t largest_shard_bytes_;
  std::map<std::string, std::string> file_metadata_ = {{"format", "pt"}};
  std::map<std::string, Group> groups_;  // by the file that they are for
  MemoryFiles side_files_;
  bool committed_ = false;
};

}  // namespace wdelta

struct wdelta_push {
  wdelta::MemoryPush push;
};
