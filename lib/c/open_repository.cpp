// SPDX-License-Identifier: Apache-2.0
#include "c/open_repository.hpp"

#include "base/error.hpp"
#include "base/execution.hpp"
#include "c/boundary.hpp"
#include "user/user_access.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

namespace {

Environment environment_of(const wdelta_repository_options& options) {
  std::map<std::string, std::string> settings;
  for (const char* const* each = options.settings; each != nullptr && *each != nullptr; ++each) {
    const std::string text = *each;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(Fault::usage, "settings", fmt::format("{:?} is not of the form NAME=VALUE", text));
    settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return [settings, lookup = options.environment, context = options.environment_context](const char* name) {
    const auto found = settings.find(name);
    if (found != settings.end()) return found->second;
    const char* value = lookup == nullptr ? nullptr : lookup(name, context);
    return std::string(value == nullptr ? "" : value);
  };
}

const Engine& engine_of(const wdelta_repository_options& options, const Environment& environment) {
  if (options.engine != nullptr) return engine_named(options.engine);
  const std::string name = environment("WDELTA_ENGINE");
  return engine_named(name.empty() ? "auto" : name);
}

Access access_of(const std::string& location, const wdelta_repository_options& options,
                 const Environment& environment) {
  NetworkOptions network;
  if (options.transfers > 0) network.transfers = std::min(options.transfers, 256u);
  network.bytes_per_second = options.bytes_per_second;
  network.user_agent = std::string("libwdelta/") + wdelta_version();
  Access access = access_to(location, network, environment);
  if (options.create == WDELTA_CREATE_BUCKET) access.creation = BucketCreation::open_to_all;
  if (options.create == WDELTA_CREATE_PRIVATE_BUCKET) access.creation = BucketCreation::private_to_owner;
  return access;
}

ThreadCounts threads_of(const wdelta_repository_options& options) {
  constexpr unsigned k_most_threads = 1024;
  if (options.threads > 0) return {std::min(options.threads, k_most_threads)};
  return default_threads();
}

}  // namespace

OpenRepository::OpenRepository(const char* location, const wdelta_repository_options& options)
    : location_(has_scheme(location) ? location : std::filesystem::absolute(location).string()),
      environment_(environment_of(options)),
      callbacks_(taken(options.callbacks)),
      threads_(threads_of(options)),
      engine_(&engine_of(options, environment_)),
      access_(access_of(location_, options, environment_)) {
  if (options.create < WDELTA_CREATE_NOTHING || options.create > WDELTA_CREATE_PRIVATE_BUCKET)
    throw Error(Fault::usage, "create", fmt::format("is {}, which is none of its values", options.create));
  if (Device* const device = engine_->device()) device_user_.emplace(device->memories());
  Watched watched(callbacks_);
  const Execution execution = watched.execution(threads_);
  if (options.create == WDELTA_CREATE_NOTHING) {
    Repository::open(location_, access_, execution);
  } else {
    Repository::open_or_create(location_, access_, execution);
  }
  access_.creation = BucketCreation::no;
}

Digest OpenRepository::resolve(const std::string& revision) const {
  const std::lock_guard lock(resolve_mutex_);  // a handle calls its caller one at a time
  Watched watched(callbacks_);
  return reopen(watched.execution(threads_)).resolve(revision);
}

void OpenRepository::drop_references() {
  const PushQueue::Turn turn = queue_push({});
  references_.clear();
  host_memories_->free_all();
  count_references();
}

void OpenRepository::count_references() {
  std::uint64_t total = 0;
  for (const auto& [branch, reference] : references_) total += reference.size_bytes();
  reference_bytes_ = total;
}

}  // namespace wdelta
