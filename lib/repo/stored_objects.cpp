// SPDX-License-Identifier: Apache-2.0
#include "repo/stored_objects.hpp"

#include <filesystem>

namespace wdelta {

StoredObjects::StoredObjects(const Store& store) {
  for (const Store::Listed& listed : store.list("objects/"))
    sizes_bytes_[std::filesystem::path(listed.key).filename().string()] = listed.size_bytes;
}

bool StoredObjects::have(const Recipe& recipe) const {
  if (recipe.reference) return true;
  const auto object = sizes_bytes_.find(recipe.bytes.object);
  return object != sizes_bytes_.end() && recipe.bytes.offset <= object->second &&
         recipe.bytes.length <= object->second - recipe.bytes.offset;
}

}  // namespace wdelta
