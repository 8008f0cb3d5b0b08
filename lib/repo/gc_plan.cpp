// SPDX-License-Identifier: Apache-2.0
#include "repo/gc_plan.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "repo/stored_objects.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

namespace {

constexpr const char* k_plan_format = "wdelta-gc-plan";
constexpr std::uint64_t k_longest_plan = std::uint64_t{1} << 30;
constexpr std::uint64_t k_end_of_time_s = std::uint64_t{1} << 40;

}  // namespace

std::string to_text(const GcPlan& plan) {
  return seal({{"format", k_plan_format}, {"version", 1}, {"time", plan.time_s}, {"keys", plan.keys}});
}

GcPlan gc_plan_from(std::string_view text, const std::string& object) {
  const ParsedJson json = open_sealed(text, k_plan_format, object);
  GcPlan plan;
  const std::uint64_t time_s = size_member(json, "time", object);
  if (time_s > k_end_of_time_s) throw Error(Fault::corrupt, object, "\"time\" is beyond all clocks");
  plan.time_s = static_cast<std::int64_t>(time_s);
  for (const ParsedJson& key : array_member(json, "keys", object)) {
    if (!key.is_string()) throw Error(Fault::corrupt, object, "\"keys\" holds something that is no key");
    plan.keys.push_back(key.get<std::string>());
  }
  return plan;
}

// gc looks at its plan before each key in a directory, else before each thousand. What it has looked at already stays
// where it is put again, in a directory (store/directory_store).
bool spare_from_plan(const Repository& repository, const Digest& commit) {
  Store& store = repository.store();
  const std::optional<GcPlan> plan = read_gc_plan(store);
  if (!plan || std::ranges::find(plan->keys, commit_key(commit)) == plan->keys.end()) return false;
  store.remove(k_gc_plan_key);
  std::vector<std::string> keys = {commit_key(commit)};
  for (StoredBook& book : repository.read_books(commit)) keys.push_back(std::move(book.key));
  for (const std::string& key : keys) {
    const auto document = store.get(key);
    if (!document) continue;
    const std::vector<std::uint8_t> bytes = read_all(*document);
    store.put(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  store.flush();
  return true;
}

void require_spared(const Repository& repository, const Digest& commit) {
  const Commit found = repository.commit(commit);
  const StoredObjects objects(repository.store());
  for (const Recipe& recipe : repository.recipes(found).needed_for(found.manifest.stored_digests())) {
    if (objects.have(recipe)) continue;
    throw Error(Fault::corrupt, object_key(recipe.bytes.object),
                fmt::format("gc removed it while commit {}, which needs it, got a name", commit.hex()),
                "push that checkpoint again");
  }
}

std::optional<GcPlan> read_gc_plan(const Store& store) {
  const auto text = get_text(store, k_gc_plan_key, k_longest_plan);
  if (!text) return std::nullopt;
  try {
    return gc_plan_from(*text, k_gc_plan_key);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    throw Error(Fault::corrupt, error.object(), error.what(), "remove it: the next wdelta gc makes another");
  }
}

}  // namespace wdelta
