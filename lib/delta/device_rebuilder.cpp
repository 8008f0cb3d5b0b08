// SPDX-License-Identifier: Apache-2.0
#include "delta/device_rebuilder.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace wdelta {
namespace {

// Less than this is made by the host: a run costs the device some launches.
constexpr std::uint64_t k_least_run_bytes = std::uint64_t{64} << 10;

[[noreturn]] void refuse(Fault fault, const DeltaReader& delta, const Tensor& tensor, std::uint64_t block,
                         const char* what) {
  throw Error(fault, delta.name(), fmt::format("tensor {:?}, block {}: {}", tensor.name, block, what));
}

}  // namespace

DeviceRebuilder::DeviceRebuilder(const Engine& engine, Device& device)
    : device_(&device),
      batches_(std::make_unique<BatchDecoder>(engine)),
      patches_(device),
      on_host_(device, DeviceBuffer::Place::pinned) {}

// Also forgets what an error before left under way.
void DeviceRebuilder::start() {
  patches_.clear();
  patched_.clear();
}

bool DeviceRebuilder::is_for_device(const RebuiltFile& file, std::size_t tensor_index, std::uint64_t block) {
  const Tensor& tensor = file.header().tensors()[tensor_index];
  const std::vector<TensorPlan::Step>& steps = file.plan(tensor_index).steps;
  for (std::size_t index = 0; index < steps.size(); ++index) {
    try {
      if (at_[index].coding_of(block) == StepBlocks::Coding::alone || at_[index].skips_rows(block)) return false;
    } catch (const Error& error) {
      refuse(error.fault(), *steps[index].delta, tensor, block, error.what());
    }
  }
  return true;
}

// The whole blocks of the part that the device makes.
void DeviceRebuilder::list_runs(const RebuiltFile& file, const Part& part) {
  runs_.clear();
  const std::uint64_t part_end = part.offset + part.size_bytes;
  const auto tensors = file.header().tensors();
  const auto first = std::ranges::upper_bound(tensors, part.offset, {}, &Tensor::end);
  for (auto tensor = first; tensor != tensors.end() && tensor->begin < part_end; ++tensor) {
    if (std::min(tensor->end, part_end) - std::max(tensor->begin, part.offset) < k_least_run_bytes) continue;
    const auto index = static_cast<std::size_t>(tensor - tensors.begin());
    const TensorPlan& plan = file.plan(index);
    while (at_.size() < plan.steps.size()) at_.emplace_back(*batches_);
    const std::uint64_t block_size = block_bytes(*tensor);
    const std::uint64_t skipped = part.offset <= tensor->begin ? 0 : part.offset - tensor->begin;
    std::uint64_t first_block = (skipped + block_size - 1) / block_size;
    const std::uint64_t end_block =  // of those that the part has as a whole
        part_end >= tensor->end ? block_count(*tensor) : (part_end - tensor->begin) / block_size;
    if (first_block >= end_block) continue;
    if (const IndexRange around = plan.strips_around(first_block); around.first < first_block) first_block = around.end;
    if (first_block >= end_block) continue;
    for (std::size_t step = 0; step < plan.steps.size(); ++step)
      at_[step].begin(plan.steps[step], *tensor, first_block, block_count(*tensor));
    for (std::uint64_t at = first_block; at < end_block;) {
      const std::uint64_t end = std::min(plan.strips_around(at).end, end_block);
      bool are_for_device = true;
      for (std::uint64_t block = at; block < end; ++block)
        are_for_device = are_for_device && is_for_device(file, index, block);
      if (are_for_device) add_to_runs(*tensor, index, {at, end});
      at = end;
    }
  }
  std::erase_if(runs_, [](const Run& run) { return run.end - run.begin < k_least_run_bytes; });
}

void DeviceRebuilder::add_to_runs(const Tensor& tensor, std::size_t index, const IndexRange& blocks) {
  const std::uint64_t begin = tensor.begin + blocks.first * block_bytes(tensor);
  const std::uint64_t end = std::min(tensor.begin + blocks.end * block_bytes(tensor), tensor.end);
  if (!runs_.empty() && runs_.back().end == begin && runs_.back().tensor == index) {
    runs_.back().end = end;
    runs_.back().block_count += blocks.end - blocks.first;
  } else {
    runs_.push_back({index, blocks.first, blocks.end - blocks.first, begin, end});
  }
}

// Calls visit(begin, size_bytes), in the part, for all between the runs.
template <class Visit>
void DeviceRebuilder::each_stretch_between(const Part& part, Visit visit) const {
  std::uint64_t at = part.offset;
  for (const Run& run : runs_) {
    if (at < run.begin) visit(static_cast<std::size_t>(at - part.offset), static_cast<std::size_t>(run.begin - at));
    at = run.end;
  }
  const std::uint64_t end = part.offset + part.size_bytes;
  if (at < end) visit(static_cast<std::size_t>(at - part.offset), static_cast<std::size_t>(end - at));
}

void DeviceRebuilder::read(const RebuiltFile& file, const Part& part, DeviceStream& stream) {
  start();
  list_runs(file, part);
  std::uint8_t* const host = on_host_.of_size(part.size_bytes);
  each_stretch_between(part, [&](std::size_t begin, std::size_t size_bytes) {
    file.read_at(part.offset + begin, {host + begin, size_bytes});
    stream.upload(part.bytes + begin, host + begin, size_bytes);
  });
  for (const Run& run : runs_) {
    const TensorPlan& plan = file.plan(run.tensor);
    const auto begin = static_cast<std::size_t>(run.begin - part.offset);
    const auto size_bytes = static_cast<std::size_t>(run.end - run.begin);
    const std::uint64_t from = plan.origin_begin + run.begin - file.header().tensors()[run.tensor].begin;
    if (plan.origin == nullptr) {
      stream.fill_zeros(part.bytes + begin, size_bytes);
    } else if (const DeviceReadable* const readable = readable_on(*device_, *plan.origin)) {
      readable->read_to_device(from, part.bytes + begin, size_bytes, stream);
    } else {
      plan.origin->read_at(from, {host + begin, size_bytes});
      stream.upload(part.bytes + begin, host + begin, size_bytes);
    }
  }
  patch_runs(file, part, stream);
}

void DeviceRebuilder::patch(const RebuiltFile& file, const Part& part, std::span<const std::uint8_t> origin,
                            DeviceStream& stream) {
  start();
  list_runs(file, part);
  std::uint8_t* const host = on_host_.of_size(part.size_bytes);
  each_stretch_between(part, [&](std::size_t begin, std::size_t size_bytes) {
    std::memcpy(host + begin, origin.data() + begin, size_bytes);
    file.patch(part.offset + begin, {host + begin, size_bytes});
    stream.upload(part.bytes + begin, host + begin, size_bytes);
  });
  patch_runs(file, part, stream);
}

// Step by step, all runs at once: the device applies what they have of a step together.
void DeviceRebuilder::patch_runs(const RebuiltFile& file, const Part& part, DeviceStream& stream) {
  std::size_t most_steps = 0;
  for (const Run& run : runs_) most_steps = std::max(most_steps, file.plan(run.tensor).steps.size());
  for (std::size_t index = 0; index < most_steps; ++index) {
    for (const Run& run : runs_) {
      if (index < file.plan(run.tensor).steps.size())
        patch_step(file, run, index, part.bytes + (run.begin - part.offset), stream);
    }
    patches_.end(stream);
  }
}

// One step of the chain over all blocks of a run.
void DeviceRebuilder::patch_step(const RebuiltFile& file, const Run& run, std::size_t step_index, std::uint8_t* blocks,
                                 DeviceStream& stream) {
  const Tensor& tensor = file.header().tensors()[run.tensor];
  const TensorPlan::Step& step = file.plan(run.tensor).steps[step_index];
  StepBlocks& at = at_[step_index];
  at.begin(step, tensor, run.first_block, run.first_block + run.block_count);
  const std::uint64_t end = run.first_block + run.block_count;
  for (std::uint64_t block = run.first_block; block < end;) {
    try {
      if (at.coding_of(block) == StepBlocks::Coding::same) {
        ++block;
        continue;
      }
      const StepBlocks::Classed classed = at.classed(block);
      const Strips strips = classed.group->shape().strips();
      const IndexRange strip = strips.blocks_of(strips.of(classed.in_group));
      const std::uint64_t blocks_there = std::min(strip.end - classed.in_group, end - block);
      patches_.add(*classed.group, {classed.in_group, classed.in_group + blocks_there}, *classed.changes,
                   blocks + (block - run.first_block) * block_bytes(tensor), patched_.size(), stream);
      block += blocks_there;
      patched_.push_back({step.delta.get(), &tensor, block - 1});
      at.forget_batches_before(block);  // they are copied
    } catch (const Error& error) {
      if (error.fault() != Fault::corrupt) throw;
      refuse(error.fault(), *step.delta, tensor, block, error.what());
    }
  }
}

void DeviceRebuilder::finish(DeviceStream& stream) {
  if (const auto failed = patches_.finish(stream)) {
    const Patched& patched = patched_[*failed];
    refuse(Fault::corrupt, *patched.delta, *patched.tensor, patched.block, "a change lies outside its class");
  }
}

}  // namespace wdelta
