// SPDX-License-Identifier: Apache-2.0
#include "c/memory_push.hpp"

#include "base/error.hpp"
#include "base/path.hpp"
#include "base/steady_reader.hpp"
#include "c/boundary.hpp"
#include "c/device_tensor.hpp"
#include "c/joined_reader.hpp"
#include "c/memory_copy.hpp"
#include "user/author.hpp"
#include "user/user_access.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <string_view>
#include <utility>

namespace wdelta {

namespace {

std::string text_or(const char* text, const char* otherwise) { return text == nullptr ? otherwise : text; }

void require_one_of(const char* option, std::int32_t value, std::int32_t last) {
  if (value < 0 || value > last)
    throw Error(Fault::usage, option, fmt::format("is {}, which is none of its values", value));
}

PushOptions push_options(const wdelta_push_options& given, const Environment& environment) {
  PushOptions options;
  options.branch = text_or(given.branch, k_main_branch);
  if (given.tag != nullptr) options.tag = given.tag;
  if (given.anchor == WDELTA_ANCHOR_NEVER) options.anchor = AnchorChoice::never;
  if (given.anchor == WDELTA_ANCHOR_NOW) options.anchor = AnchorChoice::now;
  if (given.compress_whole != 0) options.whole = WholeWeights::compressed;
  options.state_directory = state_directory(environment);
  return options;
}

CommitDraft draft_of(const wdelta_push_options& given, const Environment& environment) {
  CommitDraft draft;
  draft.message = text_or(given.message, "");
  draft.author = given.author == nullptr ? author_in(environment) : given.author;
  if (given.has_step != 0) draft.step = given.step;
  return draft;
}

wdelta_push_report told(const PushReport& report) {
  wdelta_push_report told = WDELTA_PUSH_REPORT_INIT;
  std::ranges::copy(report.id.hex(), told.id);
  if (report.parent) std::ranges::copy(report.parent->hex(), told.parent);
  told.created = report.created ? 1 : 0;
  told.compared_with_repository = report.compared_with_repository ? 1 : 0;
  told.file_count = report.file_count;
  told.checkpoint_bytes = report.checkpoint_bytes;
  told.stored_bytes = report.stored_bytes;
  told.delta_bytes = report.kept.delta_bytes;
  told.element_count = report.kept.element_count;
  told.change_count = report.kept.change_count;
  told.anchor_bytes = report.anchor_bytes;
  return told;
}

void require_places(const MemoryFiles& files) {
  std::vector<std::string_view> paths;
  for (const auto& [path, bytes] : files) paths.push_back(path);
  if (const auto collision = find_collision(std::move(paths))) {
    throw Error(Fault::usage, std::string(collision->first),
                fmt::format("and {:?} cannot lie side by side on every file system", collision->second));
  }
}

Checkpoint checkpoint_of_files(const MemoryFiles& files) {
  std::vector<CheckpointFile> opened;
  for (const auto& [path, bytes] : files) {
    opened.push_back({path, bytes->size_bytes(), false, [bytes = bytes] { return bytes; }, std::nullopt, std::nullopt});
  }
  return {"tensors in memory", std::move(opened)};
}

}  // namespace

MemoryPush::MemoryPush(std::shared_ptr<OpenRepository> repository, const wdelta_push_options& options)
    : repository_(std::move(repository)),
      watched_(options.callbacks == nullptr ? repository_->callbacks() : taken(options.callbacks)),
      draft_(draft_of(options, repository_->environment())),
      options_(push_options(options, repository_->environment())),
      tensors_(options.tensors == WDELTA_TENSORS_BORROWED ? Tensors::borrowed : Tensors::copied),
      keeps_reference_(options.reference != WDELTA_REFERENCE_REPOSITORY),
      memories_(options.reference == WDELTA_REFERENCE_HOST ? repository_->host_memories() : nullptr),
      device_(options.reference == WDELTA_REFERENCE_DEVICE ? cuda_device().device : nullptr),
      weights_path_(text_or(options.weights_path, "model.safetensors")),
      largest_shard_bytes_(options.largest_shard_bytes == 0 ? LayoutChoice().largest_shard_bytes
                                                            : options.largest_shard_bytes) {
  require_one_of("tensors", options.tensors, WDELTA_TENSORS_BORROWED);
  require_one_of("reference", options.reference, WDELTA_REFERENCE_DEVICE);
  require_one_of("anchor", options.anchor, WDELTA_ANCHOR_NOW);
  if (options.reference == WDELTA_REFERENCE_DEVICE && device_ == nullptr) {
    throw Error(Fault::unsupported, "reference",
                fmt::format("there is no CUDA device to keep it on: {}", cuda_device().reason),
                "WDELTA_REFERENCE_HOST keeps it in the host's memory");
  }
  check_push(checkpoint_of_files({}), draft_, options_);
}

MemoryPush::~MemoryPush() { release(); }

// Gives borrowed memory back, and forgets the copies that nobody else keeps.
void MemoryPush::release() {
  for (const auto& [path, group] : groups_) {
    for (const Added& tensor : group.tensors) {
      if (tensor.release) tensor.release();
    }
  }
  groups_.clear();
}

void MemoryPush::require_open() const {
  if (committed_) throw Error(Fault::usage, "push", "is committed already", "begin another one");
}

void MemoryPush::add(const GivenTensor& tensor, std::function<void()> release) {
  require_open();
  const std::string path = tensor.file.value_or(weights_path_);
  // Says now what would be wrong with it at the commit, while the caller knows which one it is.
  lay_out(std::span(&tensor.shape, 1), {path, largest_shard_bytes_, {}});
  Added added{tensor.shape, reader_of(tensor), std::move(release)};
  if (tensors_ == Tensors::copied) {
    const bool is_there = tensor.device == WDELTA_CUDA && tensor.size_bytes > 0;
    Device* const holder = is_there ? &device_of(tensor) : nullptr;
    if (device_ == nullptr) {
      added.bytes = keep_on_host(*added.bytes, execution(), {memories_, tensor.strided ? nullptr : holder});
    } else {
      // A tensor of another device stays there.
      added.bytes = keep_on_device(*added.bytes, holder == nullptr ? *device_ : *holder, execution());
    }
  }
  const auto [place, is_new_group] = groups_.try_emplace(path);
  Group& group = place->second;
  bool is_new_name = false;
  try {
    is_new_name = group.names.insert(tensor.shape.name).second;
    if (!is_new_name) throw Error(Fault::usage, tensor.shape.name, "was added already");
    group.tensors.push_back(std::move(added));
  } catch (...) {  // the push stays as it was
    if (is_new_name) group.names.erase(tensor.shape.name);
    if (is_new_group) groups_.erase(place);
    throw;
  }
  if (tensors_ == Tensors::copied && group.tensors.back().release) std::exchange(group.tensors.back().release, {})();
}

void MemoryPush::add_file(const std::string& path, std::vector<std::uint8_t> bytes) {
  require_open();
  if (const char* reason = why_not_a_place(path))
    throw Error(Fault::usage, path, fmt::format("cannot be the place of a file: it {}", reason));
  auto reader = std::make_shared<MemoryReader>(std::move(bytes), path);
  if (!side_files_.emplace(path, std::move(reader)).second) throw Error(Fault::usage, path, "was added already");
}

void MemoryPush::set_meta(const std::string& key, const std::string& value) {
  require_open();
  if (key.empty()) throw Error(Fault::usage, "meta", "has an empty key");
  if (!is_utf8(key) || !is_utf8(value)) throw Error(Fault::usage, "meta", fmt::format("{:?} is not UTF-8", key));
  draft_.meta.emplace_back(key, value);
}

void MemoryPush::set_file_metadata(const std::string& key, const char* value) {
  require_open();
  if (value == nullptr) {
    file_metadata_.erase(key);
  } else if (!is_utf8(key) || !is_utf8(value)) {
    throw Error(Fault::usage, "__metadata__", fmt::format("{:?} is not UTF-8", key));
  } else {
    file_metadata_.insert_or_assign(key, std::string(value));
  }
}

// Every file that the commit is to have.
MemoryFiles MemoryPush::files(const Execution& execution) const {
  MemoryFiles files = side_files_;
  const auto put = [&](const std::string& path, std::shared_ptr<const ByteReader> bytes) {
    if (!files.emplace(path, std::move(bytes)).second)
      throw Error(Fault::usage, path, "is the place of a file that was added and of one made of tensors");
  };
  for (const auto& [path, group] : groups_) {
    std::vector<TensorShape> shapes;
    for (const Added& tensor : group.tensors) shapes.push_back(tensor.shape);
    TensorLayout layout = lay_out(shapes, {path, largest_shard_bytes_, file_metadata_});
    for (FileLayout& file : layout.files) {
      auto joined = std::make_shared<JoinedReader>(std::move(file.front), file.path);
      for (const FileLayout::Part& part : file.parts) joined->append(group.tensors[part.tensor].bytes);
      std::shared_ptr<const ByteReader> bytes = std::move(joined);
      // A push reads some bytes twice: of a tensor that changes in between it would make a delta of neither state.
      if (tensors_ == Tensors::borrowed) bytes = std::make_shared<SteadyReader>(std::move(bytes), execution);
      put(file.path, std::move(bytes));
    }
    if (layout.index) {
      put(layout.index->path,
          std::make_shared<MemoryReader>(
              std::vector<std::uint8_t>(layout.index->text.begin(), layout.index->text.end()), layout.index->path));
    }
  }
  if (files.empty()) throw Error(Fault::usage, "push", "has no tensors and no files");
  require_places(files);
  return files;
}

// The commit is made: what goes wrong here costs the next push time, and is no failure of this one.
void MemoryPush::keep_reference(ReferenceCopy& reference, const Digest& commit, const MemoryFiles& files,
                                const Execution& execution) {
  const auto note = [&](std::string_view object, std::string_view what) {
    try {
      execution.progress->note(
          fmt::format("no reference copy is kept: {}: {}: the next push compares with the repository", object, what));
    } catch (const std::bad_alloc&) {  // nor is there memory to say so
    }
  };
  try {
    if (!keeps_reference_) return reference.drop();
    if (tensors_ == Tensors::copied) return reference.keep(commit, files);
    reference.copy(commit, files, device_, execution);
  } catch (const Error& error) {
    note(error.object(), error.what());
  } catch (const std::bad_alloc&) {
    reference.drop();
    note("memory", "there is not enough");
  }
}

wdelta_push_report MemoryPush::commit() {
  require_open();
  const Execution execution = this->execution();
  execution.check_stop();
  const PushQueue::Turn turn = repository_->queue_push(execution);
  const MemoryFiles files = this->files(execution);
  Repository repository = repository_->reopen(execution);
  ReferenceCopy& reference = repository_->reference(options_.branch);
  PushOptions options = options_;
  options.at_hand = reference.at_hand();
  const PushReport report =
      push(repository, checkpoint_of_files(files), draft_, options, repository_->engine(), execution);
  // Where there is no memory for these the push can be called again, and finds the commit; behind them nothing fails.
  wdelta_push_report told = wdelta::told(report);
  committed_ = true;
  options.at_hand.reset();
  keep_reference(reference, report.id, files, execution);
  repository_->count_references();
  release();
  repository_->host_memories()->free_unused();
  told.reference_bytes = reference.size_bytes();
  return told;
}

}  // namespace wdelta
