// SPDX-License-Identifier: Apache-2.0
#include "base/steady_reader.hpp"

#include "base/buffer.hpp"
#include "base/parallel.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

SteadyReader::SteadyReader(std::shared_ptr<const ByteReader> file, const Execution& execution)
    : file_(std::move(file)), tree_(file_->size_bytes(), {k_stretch_bytes}) {
  constexpr std::size_t k_stretches = 4;  // that a thread reads at a time: in its cache still when they are hashed
  const std::size_t count = tree_.segment_count();
  parallel_for((count + k_stretches - 1) / k_stretches, execution, [&] {
    return [&, buffer = Buffer()](std::size_t task) mutable {
      const std::size_t end = std::min((task + 1) * k_stretches, count);
      const std::uint64_t begin_bytes = std::uint64_t{task} * k_stretches * k_stretch_bytes;
      const std::uint64_t end_bytes = std::uint64_t{end - 1} * k_stretch_bytes + stretch_bytes(end - 1);
      const auto bytes = buffer.of_size(static_cast<std::size_t>(end_bytes - begin_bytes));
      file_->read_at(begin_bytes, bytes);
      for (std::size_t index = task * k_stretches; index < end; ++index) {
        tree_.set_segment(index, bytes.subspan((index - task * k_stretches) * k_stretch_bytes, stretch_bytes(index)));
      }
    };
  });
  digest_ = tree_.finish();
}

std::size_t SteadyReader::stretch_bytes(std::size_t index) const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(k_stretch_bytes, size_bytes() - std::uint64_t{index} * k_stretch_bytes));
}

void SteadyReader::read_stretch(std::size_t index, std::span<std::uint8_t> bytes) const {
  file_->read_at(std::uint64_t{index} * k_stretch_bytes, bytes);
  if (!tree_.is_segment(index, bytes)) refuse_changed();
}

std::shared_ptr<const SteadyReader::Stretch> SteadyReader::stretch(std::size_t index) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(kept_, [&](const auto& each) { return each->index == index; });
    if (found != kept_.end()) return *found;
  }
  auto read = std::make_shared<Stretch>(Stretch{index, std::vector<std::uint8_t>(stretch_bytes(index))});
  read_stretch(index, read->bytes);
  const std::lock_guard lock(mutex_);
  kept_.push_back(read);
  if (kept_.size() > k_most_kept) kept_.pop_front();
  return read;
}

void SteadyReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const auto index = static_cast<std::size_t>(offset / k_stretch_bytes);
    const auto skipped = static_cast<std::size_t>(offset % k_stretch_bytes);
    const std::size_t count = std::min(bytes.size(), stretch_bytes(index) - skipped);
    if (count == stretch_bytes(index)) {
      read_stretch(index, bytes.first(count));
    } else {
      const auto kept = stretch(index);
      std::ranges::copy(std::span(kept->bytes).subspan(skipped, count), bytes.begin());
    }
    offset += count;
    bytes = bytes.subspan(count);
  }
}

}  // namespace wdelta
