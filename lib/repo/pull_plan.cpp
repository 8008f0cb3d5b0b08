// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_plan.hpp"

#include "repo/pull_places.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

namespace wdelta {

namespace fs = std::filesystem;

bool is_entrance(const std::string& place) {
  return place.ends_with(".safetensors.index.json") || fs::path(place).filename() == "config.json";
}

namespace {

// Weights first, then side files, then what lets a loader in: config.json last, since it is what most look for.
int order_of(const ManifestFile& file) {
  const std::string& place = file.identity.path;
  if (is_entrance(place)) return fs::path(place).filename() == "config.json" ? 3 : 2;
  return is_weights(place) ? 0 : 1;
}

// 0 where there is no file.
std::uint64_t size_bytes_of(const fs::path& path) {
  std::error_code none;
  const std::uintmax_t size_bytes = fs::file_size(path, none);
  return none ? 0 : size_bytes;
}

bool is_in_place(const LocalFiles& local, const ManifestFile& file) {
  const auto held = local.held.find(file.identity.path);
  return held != local.held.end() && held->second.digest == file.identity.digest &&
         held->second.file.executable == file.executable;
}

using FileOnDisk = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

FileOnDisk file_on_disk(const LocalFiles::Held& held) { return {held.file.stamp->device, held.file.stamp->inode}; }

// Files that are going to be replaced or removed. A symlink to one of them will not lead to what it does now.
std::set<FileOnDisk> files_that_change(const Manifest& manifest, const LocalFiles& local) {
  std::set<FileOnDisk> changing;
  for (const auto& [place, held] : local.held) {
    const ManifestFile* wanted = manifest.find(place);
    if (!held.is_symlink && (wanted == nullptr || !is_in_place(local, *wanted))) changing.insert(file_on_disk(held));
  }
  return changing;
}

}  // namespace

PullPlan plan_pull(const Manifest& manifest, const LocalFiles& local) {
  PullPlan plan;
  const std::set<FileOnDisk> changing = files_that_change(manifest, local);
  for (const ManifestFile& file : manifest.files) {
    bool right = is_in_place(local, file);
    if (right) {
      const LocalFiles::Held& held = local.held.at(file.identity.path);
      right = !held.is_symlink || !changing.contains(file_on_disk(held));
    }
    const bool entrance = is_entrance(file.identity.path);
    if (!right) (entrance ? plan.missing_entrances : plan.missing).push_back(&file);
    if (right && entrance) plan.kept_entrances.push_back(&file);
  }
  const auto order = [](const ManifestFile* file) { return order_of(*file); };
  std::ranges::stable_sort(plan.missing, {}, order);
  std::ranges::stable_sort(plan.missing_entrances, {}, order);
  std::ranges::stable_sort(plan.kept_entrances, {}, order);
  plan.removed = local.unneeded;
  for (const auto* unknown : {&local.changed, &local.loaded_strays}) {
    std::ranges::copy_if(*unknown, std::back_inserter(plan.removed),
                         [&](const std::string& place) { return manifest.find(place) == nullptr; });
  }
  const auto stands_apart = [&](const std::string& place) {
    return std::ranges::none_of(manifest.files, [&](const ManifestFile& file) {
      return lies_in(file.identity.path, place) || lies_in(place, file.identity.path);
    });
  };
  const auto in_the_way = std::stable_partition(plan.removed.begin(), plan.removed.end(), stands_apart);
  plan.in_the_way.assign(in_the_way, plan.removed.end());
  plan.removed.erase(in_the_way, plan.removed.end());
  plan.weights_change =
      std::ranges::any_of(plan.missing, [](const ManifestFile* file) { return is_weights(file->identity.path); }) ||
      std::ranges::any_of(plan.removed, is_weights) || std::ranges::any_of(plan.in_the_way, is_weights);
  if (!plan.weights_change) plan.kept_entrances.clear();
  return plan;
}

std::uint64_t peak_bytes(const PullPlan& plan, const fs::path& directory) {
  // Counted from what is used now. What is freed is taken at its largest: a refusal must not be wrong.
  std::int64_t used = 0;
  std::int64_t peak = 0;
  const auto free_place = [&](const std::string& place) {
    used -= static_cast<std::int64_t>(size_bytes_of(directory / place));
  };
  const auto write = [&](const ManifestFile* file) {
    used += static_cast<std::int64_t>(file->identity.size_bytes);
    peak = std::max(peak, used);
    free_place(file->identity.path);
  };
  std::ranges::for_each(plan.in_the_way, free_place);
  std::ranges::for_each(plan.missing, write);
  std::ranges::for_each(plan.removed, free_place);
  std::ranges::for_each(plan.missing_entrances, write);
  return static_cast<std::uint64_t>(peak);
}

// None of them has freed anything yet.
std::uint64_t bytes_on_their_way(std::span<const ManifestFile* const> files, const fs::path& directory,
                                 std::size_t at_a_time) {
  std::vector<std::uint64_t> sizes_bytes;
  for (const ManifestFile* file : files)
    sizes_bytes.push_back(std::max(file->identity.size_bytes, size_bytes_of(directory / file->identity.path)));
  const auto largest = sizes_bytes.begin() + static_cast<std::ptrdiff_t>(std::min(at_a_time, sizes_bytes.size()));
  std::ranges::partial_sort(sizes_bytes, largest, std::ranges::greater());
  return std::accumulate(sizes_bytes.begin(), largest, std::uint64_t{0});
}

}  // namespace wdelta
