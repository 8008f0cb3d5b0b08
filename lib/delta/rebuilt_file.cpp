// SPDX-License-Identifier: Apache-2.0
#include "delta/rebuilt_file.hpp"

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "delta/chain_decoder.hpp"
#include "delta/device_rebuilder.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

namespace wdelta {

struct RebuiltFile::Worker {
  explicit Worker(const Engine& engine) : decoder(engine) {}
  ChainDecoder decoder;
  Buffer edge;                              // a block of which only a part was asked for, behind others of its strip
  std::span<const std::uint8_t> last_edge;  // that block, where the decoder has made none since: the rest may be next
  std::thread::id thread;                   // that used it last
};

class RebuiltFile::Pool {
 public:
  explicit Pool(const Engine& engine) : engine_(&engine) {}

  /// The one that this thread gave back last, if it is there: it still has the tables of the blocks before.
  std::unique_ptr<Worker> take() {
    const std::lock_guard lock(mutex_);
    is_at_end_ = false;
    if (idle_.empty()) return std::make_unique<Worker>(*engine_);
    const auto own =
        std::ranges::find(idle_, std::this_thread::get_id(), [](const auto& idle) { return idle->thread; });
    std::swap(own == idle_.end() ? idle_.back() : *own, idle_.back());
    auto worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  /// Once the end of the file was made none is kept: a commit may have thousands of files, and chains of deltas may
  /// have very many tables. `worker` is null where none was taken.
  void give(std::unique_ptr<Worker> worker, bool is_at_end) {
    if (worker) worker->thread = std::this_thread::get_id();
    std::vector<std::unique_ptr<Worker>> done;  // freed without the lock
    const std::lock_guard lock(mutex_);
    is_at_end_ |= is_at_end;
    if (worker) idle_.push_back(std::move(worker));
    if (is_at_end_) done.swap(idle_);
  }

  std::unique_ptr<DeviceRebuilder> take_rebuilder() {
    std::unique_lock lock(mutex_);
    if (rebuilders_.empty()) {
      lock.unlock();  // taking memory of a device is slow
      return std::make_unique<DeviceRebuilder>(*engine_, *engine_->device());
    }
    auto rebuilder = std::move(rebuilders_.back());
    rebuilders_.pop_back();
    return rebuilder;
  }
  void give(std::unique_ptr<DeviceRebuilder> rebuilder) {
    const std::lock_guard lock(mutex_);
    rebuilders_.push_back(std::move(rebuilder));
  }

 private:
  const Engine* engine_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
  bool is_at_end_ = false;
  std::vector<std::unique_ptr<DeviceRebuilder>> rebuilders_;
};

std::shared_ptr<const RebuiltFile> RebuiltFile::from_file(std::shared_ptr<const ByteReader> file) {
  const auto rebuilt = std::shared_ptr<RebuiltFile>(new RebuiltFile);
  rebuilt->name_ = file->name();
  rebuilt->size_bytes_ = file->size_bytes();
  rebuilt->header_ = std::make_shared<SafetensorsHeader>(SafetensorsHeader::read(*file));
  for (const Tensor& tensor : rebuilt->header_->tensors()) rebuilt->plans_.push_back({file, tensor.begin, {}});
  rebuilt->in_place_origin_ = std::move(file);
  return rebuilt;
}

std::shared_ptr<const RebuiltFile> RebuiltFile::from_bytes(const std::shared_ptr<const ByteReader>& file,
                                                           std::uint64_t size_bytes, const Dtype& dtype) {
  const auto rebuilt = std::shared_ptr<RebuiltFile>(new RebuiltFile);
  rebuilt->name_ = file->name();
  rebuilt->size_bytes_ = size_bytes;
  rebuilt->header_ = std::make_shared<SafetensorsHeader>(SafetensorsHeader::of_bytes(size_bytes, dtype));
  const bool resized = file->size_bytes() != size_bytes;
  const auto origin = resized ? std::make_shared<ResizedReader>(file, size_bytes) : file;
  for (const Tensor& tensor : rebuilt->header_->tensors()) rebuilt->plans_.push_back({origin, tensor.begin, {}});
  if (!resized) rebuilt->in_place_origin_ = file;
  return rebuilt;
}

std::shared_ptr<const SafetensorsHeader> RebuiltFile::header_after(
    const DeltaReader& delta, const std::vector<std::shared_ptr<const RebuiltFile>>& base) {
  const DeltaDescription& description = delta.description();
  const std::uint64_t size_bytes = description.result.size_bytes;
  if (description.opaque != nullptr)
    return std::make_shared<SafetensorsHeader>(SafetensorsHeader::of_bytes(size_bytes, *description.opaque));
  if (const auto front = delta.stored_front())
    return std::make_shared<SafetensorsHeader>(SafetensorsHeader::parse(*front, size_bytes, delta.name()));
  const RebuiltFile& first = *base.front();
  if (first.size_bytes() != size_bytes) {
    throw Error(Fault::base_mismatch, first.name(),
                fmt::format("has {} bytes, {} applies to a file of {}", first.size_bytes(), delta.name(), size_bytes));
  }
  if (first.is_opaque()) throw Error(Fault::corrupt, delta.name(), "does not begin with a safetensors header");
  return first.header_;
}

std::shared_ptr<const RebuiltFile> RebuiltFile::from_delta(std::shared_ptr<const DeltaReader> delta,
                                                           const std::vector<std::shared_ptr<const RebuiltFile>>& base,
                                                           const Engine& engine) {
  const DeltaDescription& description = delta->description();
  const auto rebuilt = std::shared_ptr<RebuiltFile>(new RebuiltFile);
  rebuilt->name_ = delta->name();
  rebuilt->size_bytes_ = description.result.size_bytes;
  rebuilt->engine_ = &engine;
  rebuilt->pool_ = std::make_shared<Pool>(engine);
  rebuilt->header_ = header_after(*delta, base);
  for (const auto& [name, source] : description.sources) {
    if (rebuilt->header_->find(name) == nullptr) {
      throw Error(Fault::corrupt, delta->name(),
                  fmt::format("gives a source for tensor {:?}, which the result has not", name));
    }
  }
  std::size_t used_entries = 0;
  for (const Tensor& tensor : rebuilt->header_->tensors()) {
    TensorPlan plan;
    if (const auto source = description.source_of(tensor.name)) {
      const RebuiltFile& file = *base.at(source->file);
      const Tensor* found = file.header_->find(source->tensor);
      if (found == nullptr || !found->has_elements_like(tensor)) {
        throw Error(
            Fault::base_mismatch, file.name(),
            fmt::format("has no tensor {:?} of the dtype and size that {} needs", source->tensor, delta->name()));
      }
      plan = file.plans_[static_cast<std::size_t>(found - file.header_->tensors().data())];
    }
    const DeltaEntry* entry = delta->find(tensor.name);
    if (entry != nullptr) {
      if (entry->block_count() != block_count(tensor)) {
        throw Error(Fault::corrupt, delta->name(),
                    fmt::format("tensor {:?}: has {} blocks, {} expected", tensor.name, entry->block_count(),
                                block_count(tensor)));
      }
      plan.steps.push_back({delta, entry, row_elements(tensor)});
      ++used_entries;
    } else if (!description.source_of(tensor.name) && tensor.size_bytes() > 0) {
      throw Error(Fault::corrupt, delta->name(),
                  fmt::format("tensor {:?}: has neither a source nor an entry", tensor.name));
    }
    rebuilt->plans_.push_back(std::move(plan));
  }
  if (used_entries != delta->entries().size()) {
    throw Error(Fault::corrupt, delta->name(), "has entries for tensors that the result has not");
  }
  rebuilt->find_in_place_origin();
  return rebuilt;
}

void RebuiltFile::find_in_place_origin() {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const TensorPlan& plan = plans_[i];
    if (!plan.origin || plan.origin_begin != header_->tensors()[i].begin || plan.origin != plans_.front().origin)
      return;
  }
  if (!plans_.empty() && plans_.front().origin->size_bytes() == size_bytes_) in_place_origin_ = plans_.front().origin;
}

// Calls visit(tensor, offset in the tensor, its part of `bytes`) for every tensor that the range touches.
template <typename Visit>
void RebuiltFile::for_each_tensor(std::uint64_t offset, std::span<std::uint8_t> bytes, Visit visit) const {
  const auto tensors = header_->tensors();
  const std::uint64_t end = offset + bytes.size();
  auto tensor = std::ranges::upper_bound(tensors, offset, {}, &Tensor::end);
  for (; tensor != tensors.end() && tensor->begin < end; ++tensor) {
    if (tensor->size_bytes() == 0) continue;
    const std::uint64_t from = std::max(tensor->begin, offset);
    const std::uint64_t to = std::min(tensor->end, end);
    visit(static_cast<std::size_t>(tensor - tensors.begin()), from - tensor->begin,
          bytes.subspan(from - offset, to - from));
  }
}

void RebuiltFile::patch_front(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  const auto front = header_->front();
  if (offset >= front.size()) return;
  std::ranges::copy(front.subspan(offset, std::min<std::uint64_t>(bytes.size(), front.size() - offset)), bytes.begin());
}

void RebuiltFile::read_origin(std::size_t tensor, std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  const TensorPlan& plan = plans_[tensor];
  if (plan.origin) {
    plan.origin->read_at(plan.origin_begin + offset, bytes);
  } else {
    std::ranges::fill(bytes, std::uint8_t{0});
  }
}

std::uint64_t RebuiltFile::block_boundary_before(std::uint64_t offset) const {
  return wdelta::block_boundary_before(*header_, offset);
}

void RebuiltFile::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (is_origin()) return in_place_origin_->read_at(offset, bytes);
  patch_front(offset, bytes);
  std::unique_ptr<Worker> worker;
  for_each_tensor(offset, bytes, [&](std::size_t tensor, std::uint64_t begin, std::span<std::uint8_t> part) {
    read_origin(tensor, begin, part);
    patch_tensor(worker, tensor, begin, part);
  });
  if (pool_) pool_->give(std::move(worker), offset + bytes.size() == size_bytes_);
}

void RebuiltFile::patch(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  patch_front(offset, bytes);
  if (!pool_) return;
  std::unique_ptr<Worker> worker;
  for_each_tensor(offset, bytes, [&](std::size_t tensor, std::uint64_t begin, std::span<std::uint8_t> part) {
    patch_tensor(worker, tensor, begin, part);
  });
  pool_->give(std::move(worker), offset + bytes.size() == size_bytes_);
}

void RebuiltFile::find_sources() const {
  std::unordered_set<const ByteReader*> origins;
  std::unordered_set<const DeltaReader*> deltas;
  for (const TensorPlan& plan : plans_) {
    if (plan.origin) origins.insert(plan.origin.get());
    for (const TensorPlan::Step& step : plan.steps) deltas.insert(step.delta.get());
  }
  origins_.assign(origins.begin(), origins.end());
  deltas_.assign(deltas.begin(), deltas.end());
}

void RebuiltFile::check_unchanged() const {
  if (is_origin()) return in_place_origin_->check_unchanged();
  std::call_once(sources_found_, [this] { find_sources(); });
  for (const ByteReader* origin : origins_) origin->check_unchanged();
}

std::optional<std::int64_t> RebuiltFile::changed_ns() const {
  if (is_origin()) return in_place_origin_->changed_ns();
  std::call_once(sources_found_, [this] { find_sources(); });
  std::int64_t latest = 0;
  const auto look_at = [&](const auto* source) {
    const std::optional<std::int64_t> changed = source->changed_ns();
    if (changed) latest = std::max(latest, *changed);
    return changed.has_value();
  };
  if (!std::ranges::all_of(origins_, look_at) || !std::ranges::all_of(deltas_, look_at)) return std::nullopt;
  return latest;
}

bool RebuiltFile::is_on(const Device& device) const {
  if (engine_ != nullptr) return engine_->device() == &device;
  const auto* const readable = dynamic_cast<const DeviceReadable*>(in_place_origin_.get());
  return readable != nullptr && readable->is_on(device);
}

void RebuiltFile::read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const {
  if (!pool_)
    return dynamic_cast<const DeviceReadable&>(*in_place_origin_).read_to_device(offset, to, size_bytes, stream);
  auto rebuilder = pool_->take_rebuilder();
  try {
    rebuilder->read(*this, {offset, static_cast<std::uint8_t*>(to), size_bytes}, stream);
    rebuilder->finish(stream);
  } catch (...) {
    settle(stream);  // before the rebuilder goes, whose memory it works with
    throw;
  }
  pool_->give(std::move(rebuilder));
}

// Takes a worker, half a megabyte, only where there is something to patch: of a checkpoint of thousands of files that
// are rebuilt all headers are read, and no more of most.
void RebuiltFile::patch_tensor(std::unique_ptr<Worker>& lent, std::size_t tensor_index, std::uint64_t offset,
                               std::span<std::uint8_t> bytes) const {
  const Tensor& tensor = header_->tensors()[tensor_index];
  const std::vector<TensorPlan::Step>& steps = plans_[tensor_index].steps;
  if (steps.empty()) return;
  if (!lent) lent = pool_->take();
  Worker& worker = *lent;
  const std::uint64_t block = block_bytes(tensor);
  while (!bytes.empty()) {
    const std::uint64_t touched = offset / block * block;
    const std::uint64_t end = std::min(touched + block, tensor.size_bytes());
    const std::uint64_t part_end = std::min(end, offset + bytes.size());
    const auto take_part = [&] {
      std::ranges::copy(worker.last_edge.subspan(offset - touched, part_end - offset), bytes.begin());
      bytes = bytes.subspan(part_end - offset);
      offset = part_end;
    };
    std::uint64_t first = offset / block;
    if (!worker.last_edge.empty() && worker.decoder.goes_on_at(steps, first + 1)) {
      take_part();
      continue;
    }
    if (!worker.decoder.goes_on_at(steps, first)) first = plans_[tensor_index].strips_around(first).first;
    const std::uint64_t begin = first * block;
    const std::uint64_t whole_end =  // of the whole blocks that are asked for from here on
        offset + bytes.size() == tensor.size_bytes() ? tensor.size_bytes() : (offset + bytes.size()) / block * block;
    worker.last_edge = {};
    if (offset == begin && whole_end > begin) {
      worker.decoder.apply(steps, tensor, first, bytes.first(whole_end - begin));
      bytes = bytes.subspan(whole_end - begin);
      offset = whole_end;
      continue;
    }
    // A block that the range only touches: its other elements are fetched too, and so is what lies before it in its
    // strip, since a coding may depend on them.
    const auto whole = worker.edge.of_size(end - begin);
    read_origin(tensor_index, begin, whole);
    worker.decoder.apply(steps, tensor, first, whole);
    worker.last_edge = whole.subspan(touched - begin);
    take_part();
  }
}

}  // namespace wdelta
