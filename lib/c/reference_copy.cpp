// SPDX-License-Identifier: Apache-2.0
#include "c/reference_copy.hpp"

#include <utility>

namespace wdelta {

std::optional<CommitAtHand> ReferenceCopy::at_hand() const {
  if (!commit_) return std::nullopt;
  CommitAtHand at_hand{*commit_, {}};
  for (const auto& [path, file] : files_) at_hand.files[path] = [file = file] { return file; };
  return at_hand;
}

std::uint64_t ReferenceCopy::size_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [path, file] : files_) total += file->size_bytes();
  return total;
}

void ReferenceCopy::keep(const Digest& commit, MemoryFiles files) {
  drop();
  commit_ = commit;
  files_ = std::move(files);
}

void ReferenceCopy::copy(const Digest& commit, const MemoryFiles& files, Device* device, const Execution& execution) {
  auto before = std::exchange(copies_, {});
  if (device != device_) before.clear();
  drop();
  std::map<std::string, std::shared_ptr<MemoryCopy>> copies;
  MemoryFiles kept;
  // Before anything new is mapped what cannot be used again is given back.
  std::erase_if(before, [&](const auto& old) {
    const auto file = files.find(old.first);
    return file == files.end() || file->second->size_bytes() != old.second->size_bytes();
  });
  for (const auto& [path, file] : files) {
    const auto old = before.find(path);
    if (old != before.end()) {
      old->second->overwrite(*file, execution);
      copies[path] = old->second;
    } else {
      copies[path] = device == nullptr ? keep_on_host(*file, execution) : keep_on_device(*file, *device, execution);
    }
    kept[path] = copies[path];
  }
  commit_ = commit;
  files_ = std::move(kept);
  device_ = device;
  copies_ = std::move(copies);
}

}  // namespace wdelta
