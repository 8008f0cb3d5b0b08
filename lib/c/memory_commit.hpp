// SPDX-License-Identifier: Apache-2.0
// What a wdelta_commit stands for: a commit whose tensors and files can be read into a caller's memory.
#pragma once

#include "c/open_repository.hpp"
#include "c/proven_read.hpp"
#include "c/tensor.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

class MemoryCommit {
 public:
  MemoryCommit(std::shared_ptr<OpenRepository> repository, const std::string& revision,
               const wdelta_callbacks* callbacks);
  MemoryCommit(const MemoryCommit&) = delete;
  MemoryCommit& operator=(const MemoryCommit&) = delete;

  wdelta_commit_summary summary() const;
  wdelta_file file(std::size_t index) const;
  wdelta_tensor_description tensor(std::size_t index) const;
  wdelta_tensor_description find(const std::string& name, const char* file);

  void fill(std::span<const GivenTensor> tensors);
  std::uint64_t size_of(const std::string& path) const { return required(path).size_bytes; }
  void read(const std::string& path, std::span<std::uint8_t> bytes);
  void cancel() { watched_.stop.request_stop(); }

 private:
  struct Weights {
    const CheckpointFile* file;
    std::shared_ptr<const ByteReader> bytes;
    SafetensorsHeader header;
    bool is_proven = false;  // by its digest, the header with it
  };
  struct Held {
    const Tensor* tensor;
    std::size_t weights;  // which of weights_
    std::vector<std::int64_t> shape;
  };

  Execution execution() { return watched_.execution(repository_->threads()); }
  const CheckpointFile& required(const std::string& path) const;
  const Held& held(const std::string& name, const std::string* file);
  ProvableFile provable(const CheckpointFile& file, const ByteReader& bytes) const;
  void prove(Weights& weights);
  wdelta_tensor_description describe(const Held& held) const;

  std::shared_ptr<OpenRepository> repository_;
  Watched watched_;
  Execution execution_;
  std::shared_ptr<const Repository> opened_;
  Commit commit_;
  Checkpoint checkpoint_;
  std::vector<Weights> weights_;
  std::vector<Held> tensors_;  // by name, then by file
  std::string id_;
  std::string parent_;
  std::vector<std::string> digests_;  // of files, in hexadecimal
  std::vector<const char*> meta_keys_;
  std::vector<const char*> meta_values_;
};

}  // namespace wdelta

struct wdelta_commit {
  wdelta::MemoryCommit commit;
};
