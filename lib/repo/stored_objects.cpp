// SPDX-License-Identifier: Apache-2.0
#include "repo/stored_objects.hpp"

#include "store/reads_at_once.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

namespace wdelta {

StoredObjects::StoredObjects(const Store& store) : StoredObjects(store, std::array{std::string("objects/")}, {}) {}

StoredObjects::StoredObjects(const Store& store, std::span<const std::string> prefixes, const std::stop_token& stop) {
  std::vector<std::vector<Store::Listed>> listings(prefixes.size());
  for_each_read(store, prefixes.size(), stop, [&](std::size_t i) { listings[i] = store.list(prefixes[i]); });
  for (const std::vector<Store::Listed>& listing : listings) add(listing);
}

// Where an object lies in another folder than its own nobody finds it.
void StoredObjects::add(std::span<const Store::Listed> listing) {
  for (const Store::Listed& listed : listing) {
    if (is_object_key(listed.key))
      sizes_bytes_[std::filesystem::path(listed.key).filename().string()] = listed.size_bytes;
  }
}

namespace {

const std::string& object_of(const Recipe& recipe) { return recipe.bytes.object; }

}  // namespace

bool StoredObjects::have(const Recipe& recipe) const {
  if (recipe.reference) return true;
  const auto object = sizes_bytes_.find(recipe.bytes.object);
  return object != sizes_bytes_.end() && recipe.bytes.fits_in(object->second);
}

// A listing shows the sizes of packs too, of which recipes do not tell, and what else lies in a folder at no cost.
std::optional<std::string> find_lost(const Store& store, const Commit& commit, const RecipeGraph& graph,
                                     const std::stop_token& stop) {
  std::vector<Recipe> needed = graph.needed_for(commit.manifest.stored_digests());
  std::erase_if(needed, [](const Recipe& recipe) { return recipe.reference.has_value(); });
  std::ranges::sort(needed, {}, object_of);
  // Ids are as good as drawn by lot.
  std::rotate(needed.begin(), std::ranges::lower_bound(needed, commit.id.hex(), {}, object_of), needed.end());
  constexpr std::size_t k_most_folders = 8;
  std::vector<std::string> folders;
  std::size_t looked_at = 0;
  for (; looked_at < needed.size(); ++looked_at) {
    const std::string key = object_key(object_of(needed[looked_at]));
    std::string folder = key.substr(0, key.rfind('/') + 1);
    if (!folders.empty() && folders.back() == folder) continue;
    if (folders.size() == k_most_folders) break;
    folders.push_back(std::move(folder));
  }
  const StoredObjects objects(store, folders, stop);
  for (const Recipe& recipe : std::span(needed).first(looked_at)) {
    if (objects.have(recipe)) continue;
    // What was written a moment ago, by another program, a listing may lack.
    const std::string key = object_key(object_of(recipe));
    const auto object = store.get(key);
    if (!object || !recipe.bytes.fits_in(object->size_bytes())) return key;
  }
  return std::nullopt;
}

}  // namespace wdelta
