// SPDX-License-Identifier: Apache-2.0
#include "c/memory_commit.hpp"

#include "base/error.hpp"
#include "c/boundary.hpp"
#include "c/tensor_fill.hpp"
#include "c/tied_tensors.hpp"
#include "repo/commit_checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

MemoryCommit::MemoryCommit(std::shared_ptr<OpenRepository> repository, const std::string& revision,
                           const wdelta_callbacks* callbacks)
    : repository_(std::move(repository)),
      watched_(callbacks == nullptr ? repository_->callbacks() : taken(callbacks)),
      execution_(execution()),
      opened_(std::make_shared<const Repository>(repository_->reopen(execution_))),
      commit_(opened_->commit_at(revision)),
      checkpoint_(checkpoint_of(opened_, commit_, repository_->engine(), execution_)),
      id_(commit_.id.hex()),
      parent_(commit_.manifest.parent ? commit_.manifest.parent->hex() : "") {
  for (const CheckpointFile& file : checkpoint_.files()) {
    digests_.push_back(file.digest->hex());
    if (!is_weights(file.path)) continue;
    auto bytes = file.open();
    SafetensorsHeader header = SafetensorsHeader::read(*bytes);
    weights_.push_back({&file, std::move(bytes), std::move(header)});
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    for (const Tensor& tensor : weights_[i].header.tensors())
      tensors_.push_back({&tensor, i, {tensor.shape.begin(), tensor.shape.end()}});
  }
  std::ranges::sort(tensors_, {},
                    [](const Held& each) { return std::tuple(std::string_view(each.tensor->name), each.weights); });
  for (const auto& [key, value] : commit_.manifest.meta) {
    meta_keys_.push_back(key.c_str());
    meta_values_.push_back(value.c_str());
  }
}

wdelta_commit_summary MemoryCommit::summary() const {
  const Manifest& manifest = commit_.manifest;
  wdelta_commit_summary summary = WDELTA_COMMIT_SUMMARY_INIT;
  summary.id = id_.c_str();
  summary.parent = parent_.c_str();
  summary.message = manifest.message.c_str();
  summary.author = manifest.author.c_str();
  summary.time = manifest.time.c_str();
  summary.step = manifest.step.value_or(0);
  summary.has_step = manifest.step ? 1 : 0;
  summary.meta_count = meta_keys_.size();
  summary.meta_keys = meta_keys_.data();
  summary.meta_values = meta_values_.data();
  summary.file_count = checkpoint_.files().size();
  summary.tensor_count = tensors_.size();
  return summary;
}

wdelta_file MemoryCommit::file(std::size_t index) const {
  if (index >= checkpoint_.files().size())
    throw Error(Fault::usage, "file",
                fmt::format("there is no file {}: there are {}", index, checkpoint_.files().size()));
  const CheckpointFile& file = checkpoint_.files()[index];
  wdelta_file told = WDELTA_FILE_INIT;
  told.path = file.path.c_str();
  told.size_bytes = file.size_bytes;
  told.digest = digests_[index].c_str();
  return told;
}

wdelta_tensor_description MemoryCommit::describe(const Held& held) const {
  wdelta_tensor_description told = WDELTA_TENSOR_DESCRIPTION_INIT;
  told.name = held.tensor->name.c_str();
  told.dtype = held.tensor->dtype->name.data();
  told.file = weights_[held.weights].file->path.c_str();
  told.dimensions = static_cast<std::uint32_t>(held.shape.size());
  told.shape = held.shape.data();
  told.size_bytes = held.tensor->size_bytes();
  return told;
}

wdelta_tensor_description MemoryCommit::tensor(std::size_t index) const {
  if (index >= tensors_.size())
    throw Error(Fault::usage, "tensor", fmt::format("there is no tensor {}: there are {}", index, tensors_.size()));
  return describe(tensors_[index]);
}

wdelta_tensor_description MemoryCommit::find(const std::string& name, const char* file) {
  const std::string place = file == nullptr ? "" : file;
  return describe(held(name, file == nullptr ? nullptr : &place));
}

ProvableFile MemoryCommit::provable(const CheckpointFile& file, const ByteReader& bytes) const {
  return {&bytes, &*file.digest, fmt::format("{}/{}", checkpoint_.name(), file.path)};
}

// A header is a few bytes of a file that nobody has compared with its digest yet: before a caller is told that it asked
// for the wrong thing, or that something is not there, the file has to be what the commit says.
void MemoryCommit::prove(Weights& weights) {
  if (weights.is_proven) return;
  execution_.check_stop();
  execution_.progress->begin("proving", weights.file->size_bytes);
  try {
    read_proven(provable(*weights.file, *weights.bytes), execution_, [](auto, auto) {});
  } catch (const Error& error) {
    // An object that is gone proves nothing: "not found" is said of what the commit does not have.
    if (error.fault() != Fault::not_found) throw;
    throw Error(Fault::corrupt, error.object(), error.what(), error.hint());
  }
  weights.is_proven = true;
}

// Throws only what is proven.
const MemoryCommit::Held& MemoryCommit::held(const std::string& name, const std::string* file) {
  const auto name_of_held = [](const Held& each) { return std::string_view(each.tensor->name); };
  const auto first = std::ranges::lower_bound(tensors_, std::string_view(name), {}, name_of_held);
  const auto last = std::ranges::upper_bound(tensors_, std::string_view(name), {}, name_of_held);
  if (file == nullptr && last - first > 1) {
    prove(weights_[first->weights]);
    prove(weights_[(first + 1)->weights]);
    throw Error(Fault::usage, name,
                fmt::format("is in several files: {} and {}", weights_[first->weights].file->path,
                            weights_[(first + 1)->weights].file->path),
                "say which file is meant");
  }
  const auto found = std::find_if(
      first, last, [&](const Held& each) { return file == nullptr || weights_[each.weights].file->path == *file; });
  if (found == last) {
    for (Weights& weights : weights_) {
      if (file == nullptr || weights.file->path == *file) prove(weights);
    }
    throw Error(Fault::not_found, name,
                file == nullptr ? fmt::format("is no tensor of commit {}", id_.substr(0, 12))
                                : fmt::format("is no tensor of {} in commit {}", *file, id_.substr(0, 12)));
  }
  return *found;
}

const CheckpointFile& MemoryCommit::required(const std::string& path) const {
  const CheckpointFile* file = checkpoint_.find(path);
  if (file == nullptr) throw Error(Fault::not_found, path, fmt::format("is no file of commit {}", id_.substr(0, 12)));
  return *file;
}

void MemoryCommit::fill(std::span<const GivenTensor> tensors) {
  const std::vector<std::size_t> first = tied_to(tensors);
  std::map<std::size_t, std::shared_ptr<const TiedTarget>> tied;  // by the first that is tied
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (first[i] != i && !tied.contains(first[i])) tied[first[i]] = std::make_shared<TiedTarget>(tensors[first[i]]);
  }
  std::map<std::size_t, std::vector<FilledPart>> parts;  // by file
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GivenTensor& given = tensors[i];
    const Held& source = held(given.shape.name, given.file ? &*given.file : nullptr);
    const Tensor& tensor = *source.tensor;
    if (tensor.dtype != given.shape.dtype || tensor.shape != given.shape.shape) {
      prove(weights_[source.weights]);
      throw Error(
          Fault::usage, tensor.name,
          fmt::format("is {} {} in commit {}, and was to fill {} {}", tensor.dtype->name, shape_text(tensor.shape),
                      id_.substr(0, 12), given.shape.dtype->name, shape_text(given.shape.shape)));
    }
    if (given.size_bytes == 0) continue;
    const auto shared = tied.find(first[i]);
    std::shared_ptr<const TensorTarget> target;
    if (shared == tied.end()) {
      target = target_of(given);
    } else {
      target = shared->second;
    }
    parts[source.weights].push_back({tensor.begin, tensor.end, std::move(target)});
  }
  std::uint64_t total_bytes = 0;
  for (auto& [weights, filled] : parts) {
    std::ranges::sort(filled, {}, &FilledPart::begin);
    const auto twice = std::ranges::adjacent_find(filled, {}, &FilledPart::begin);
    if (twice != filled.end()) throw Error(Fault::usage, "tensors", "one of them is named twice");
    total_bytes += weights_[weights].file->size_bytes;
  }
  execution_.check_stop();
  execution_.progress->begin("filling", total_bytes);
  for (const auto& [weights, filled] : parts) {
    Weights& from = weights_[weights];
    fill_tensors(provable(*from.file, *from.bytes), filled, execution_);
    from.is_proven = true;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (first[i] == i || !tied[first[i]]->differs()) continue;
    throw Error(Fault::usage, tensors[i].shape.name,
                fmt::format("is to lie in the memory of {:?}, and is another tensor in commit {}",
                            tensors[first[i]].shape.name, id_.substr(0, 12)),
                "fill tensors that have memory of their own");
  }
}

void MemoryCommit::read(const std::string& path, std::span<std::uint8_t> bytes) {
  const CheckpointFile& file = required(path);
  if (bytes.size() != file.size_bytes)
    throw Error(Fault::usage, path, fmt::format("has {} bytes, and was to fill {}", file.size_bytes, bytes.size()));
  execution_.check_stop();
  execution_.progress->begin("reading", file.size_bytes);
  const auto from = file.open();
  read_proven(provable(file, *from), execution_, [&](std::uint64_t offset, std::span<const std::uint8_t> piece) {
    if (!piece.empty()) std::memcpy(bytes.data() + offset, piece.data(), piece.size());
  });
}

}  // namespace wdelta
