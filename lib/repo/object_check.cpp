// SPDX-License-Identifier: Apache-2.0
#include "repo/object_check.hpp"

#include "base/file_turns.hpp"
#include "base/reader_digest.hpp"
#include "base/space.hpp"
#include "repo/version_finder.hpp"

#include <atomic>
#include <filesystem>
#include <fmt/format.h>

namespace wdelta {

namespace {

// Objects that stay open once they were read: each takes a file or two of those that a process may have open. What is
// smaller takes no more than a request or two to fetch again.
constexpr std::size_t k_most_kept_objects = 128;
constexpr std::uint64_t k_least_kept_bytes = std::uint64_t{1} << 20;

// Whether the store spools what is read of it, and has the room for all of its objects twice: once kept, and once more
// while they are read.
bool has_room_to_keep(const Store& store, std::uint64_t objects_bytes) {
  const auto spool = store.spooling_path();
  return spool && objects_bytes <= free_bytes_at(*spool).value_or(0) / 2;
}

}  // namespace

std::vector<ObjectCheck::Found> ObjectCheck::read(const std::vector<Store::Listed>& objects) {
  std::vector<std::uint64_t> sizes_bytes;
  std::uint64_t total_bytes = 0;
  for (const Store::Listed& listed : objects) {
    sizes_bytes.push_back(listed.size_bytes);
    total_bytes += listed.size_bytes;
  }
  // So that commits are rebuilt without fetching them again.
  const bool keeps = depth_ == VerifyDepth::deep && has_room_to_keep(repository_->store(), total_bytes);
  std::atomic<std::size_t> kept_count = 0;
  std::vector<Found> found(objects.size());
  std::atomic<bool> is_cut_off = false;
  for_each_file(sizes_bytes, *execution_, [&](std::size_t index, const Execution& on) {
    if (is_cut_off) return;
    try {
      const std::string& key = objects[index].key;
      const auto reader = repository_->store().get(key);
      if (!reader) return;  // gc has taken it since; who needs it all the same will miss it
      found[index].digest = digest_of(*reader, on);
      if (keeps && sizes_bytes[index] >= k_least_kept_bytes && kept_count++ < k_most_kept_objects)
        found[index].kept = reader;
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      if (error.fault() != Fault::network) {
        found[index].failure = std::current_exception();
      } else if (!is_cut_off.exchange(true)) {
        cut_off_ = std::current_exception();
      }
    }
  });
  return found;
}

void ObjectCheck::run() {
  std::uint64_t total = 0;
  const auto objects = repository_->store().list("objects/");
  for (const Store::Listed& listed : objects) total += listed.size_bytes;
  execution_->progress->begin("verifying objects", depth_ == VerifyDepth::quick ? 0 : total);
  const std::vector<Found> found = depth_ == VerifyDepth::quick ? std::vector<Found>() : read(objects);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Store::Listed& listed = objects[i];
    if (depth_ != VerifyDepth::quick && !found[i].digest && !found[i].failure) continue;
    record_->check(listed, [&] {
      const std::string name = std::filesystem::path(listed.key).filename().string();
      const auto expected = object_digest(name);
      if (!expected || object_key(name) != listed.key)
        throw Error(Fault::corrupt, listed.key, "has no name of an object");
      sizes_bytes_[name] = listed.size_bytes;
      if (depth_ == VerifyDepth::quick) return;
      if (found[i].kept) kept_.emplace(name, found[i].kept);
      if (found[i].failure) std::rethrow_exception(found[i].failure);
      if (found[i].digest != expected) refuse(listed.key, *found[i].digest);
    });
  }
  if (cut_off_) std::rethrow_exception(cut_off_);
}

std::optional<std::uint64_t> ObjectCheck::size_of(const std::string& name) {
  auto size = sizes_bytes_.find(name);
  if (size == sizes_bytes_.end() && look_again(name)) size = sizes_bytes_.find(name);
  if (size == sizes_bytes_.end()) return {};
  return size->second;
}

// Of a commit that was pushed since objects were listed, an object may not be among those.
bool ObjectCheck::look_again(const std::string& name) {
  const std::string key = object_key(name);
  const auto reader = repository_->store().get(key);
  if (!reader) return false;
  record_->check(Store::Listed{key, reader->size_bytes(), 0}, [&] {
    sizes_bytes_[name] = reader->size_bytes();
    if (depth_ == VerifyDepth::quick) return;
    const Digest digest = digest_of(*reader, *execution_);
    if (digest != object_digest(name)) refuse(key, digest);
  });
  return true;
}

void ObjectCheck::refuse(const std::string& key, const Digest& digest) {
  record_->report.hint = k_damaged_hint;
  throw Error(Fault::corrupt, key, fmt::format("its bytes have digest {}", digest.hex()));
}

}  // namespace wdelta
