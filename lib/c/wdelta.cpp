// SPDX-License-Identifier: Apache-2.0
// The functions of wdelta.h: each takes what C can say, hands it to what the handle stands for, and lets nothing out
// that was thrown.
#include "include/wdelta.h"

#include "c/boundary.hpp"
#include "c/dlpack.hpp"
#include "c/memory_commit.hpp"
#include "c/memory_push.hpp"
#include "c/open_repository.hpp"
#include "engine/device.hpp"
#include "engine/engine.hpp"
#include "user/exit_codes.hpp"

#include <algorithm>
#include <cstdlib>

using namespace wdelta;

namespace {

template <typename Managed>
wdelta_status add_dlpack(wdelta_push* push, const char* name, const char* dtype, Managed* tensor, void* stream,
                         wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    require(tensor, "tensor");
    DlpackTensor given = from_dlpack(name, dtype, tensor);
    given.tensor.stream = stream;
    push->push.add(given_tensor(given.tensor), std::move(given.release));
  });
}

}  // namespace

const char* wdelta_version() { return WDELTA_VERSION; }

const char* wdelta_status_text(wdelta_status status) {
  const auto codes = exit_codes();
  const auto found = std::ranges::find(codes, status, &ExitCode::code);
  return found == codes.end() ? "unknown" : found->meaning;
}

wdelta_status wdelta_engine(const char* name, const char** chosen, wdelta_error* error) {
  return guarded(error, [&] {
    require(chosen, "chosen");
    *chosen = engine_named(name == nullptr ? "auto" : name).name.data();
  });
}

int wdelta_cuda(const char** reason) {
  const DeviceAnswer& answer = cuda_device();
  if (reason != nullptr) *reason = answer.reason.c_str();
  return answer.device == nullptr ? 0 : 1;
}

const char* wdelta_environment_of_process(const char* name, void*) { return std::getenv(name); }

wdelta_status wdelta_open(const char* location, const wdelta_repository_options* options,
                          wdelta_repository** repository, wdelta_error* error) {
  return guarded(error, [&] {
    require(repository, "repository");
    *repository = nullptr;
    require(location, "location");
    if (*location == '\0') throw Error(Fault::usage, "location", "is empty");
    *repository = new wdelta_repository{std::make_shared<OpenRepository>(location, taken(options))};
  });
}

void wdelta_close(wdelta_repository* repository) { delete repository; }

wdelta_status wdelta_resolve(wdelta_repository* repository, const char* revision, char id[65], wdelta_error* error) {
  return guarded(error, [&] {
    require(repository, "repository");
    require(id, "id");
    const std::string hex = repository->open->resolve(revision == nullptr ? "" : revision).hex();
    std::memcpy(id, hex.c_str(), hex.size() + 1);
  });
}

uint64_t wdelta_reference_bytes(wdelta_repository* repository) {
  return repository == nullptr ? 0 : repository->open->reference_bytes();
}

void wdelta_drop_references(wdelta_repository* repository) {
  if (repository != nullptr) guarded(nullptr, [&] { repository->open->drop_references(); });
}

wdelta_status wdelta_push_begin(wdelta_repository* repository, const wdelta_push_options* options, wdelta_push** push,
                                wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    *push = nullptr;
    require(repository, "repository");
    *push = new wdelta_push{{repository->open, taken(options)}};
  });
}

wdelta_status wdelta_push_add(wdelta_push* push, const wdelta_tensor* tensor, wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    require(tensor, "tensor");
    push->push.add(given_tensor(taken(tensor)));
  });
}

wdelta_status wdelta_push_add_dlpack(wdelta_push* push, const char* name, const char* dtype, DLManagedTensor* tensor,
                                     void* stream, wdelta_error* error) {
  return add_dlpack(push, name, dtype, tensor, stream, error);
}

wdelta_status wdelta_push_add_dlpack_versioned(wdelta_push* push, const char* name, const char* dtype,
                                               DLManagedTensorVersioned* tensor, void* stream, wdelta_error* error) {
  return add_dlpack(push, name, dtype, tensor, stream, error);
}

wdelta_status wdelta_push_add_file(wdelta_push* push, const char* path, const void* bytes, size_t size_bytes,
                                   wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    require(path, "path");
    if (size_bytes > 0) require(bytes, "bytes");
    const auto* begin = static_cast<const std::uint8_t*>(bytes);
    push->push.add_file(path, std::vector<std::uint8_t>(begin, begin + size_bytes));
  });
}

wdelta_status wdelta_push_meta(wdelta_push* push, const char* key, const char* value, wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    require(key, "key");
    require(value, "value");
    push->push.set_meta(key, value);
  });
}

wdelta_status wdelta_push_file_metadata(wdelta_push* push, const char* key, const char* value, wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    require(key, "key");
    push->push.set_file_metadata(key, value);
  });
}

wdelta_status wdelta_push_commit(wdelta_push* push, wdelta_push_report* report, wdelta_error* error) {
  return guarded(error, [&] {
    require(push, "push");
    if (report != nullptr) give<wdelta_push_report>(report, WDELTA_PUSH_REPORT_INIT);
    const wdelta_push_report told = push->push.commit();
    if (report != nullptr) give(report, told);
  });
}

void wdelta_push_cancel(wdelta_push* push) {
  if (push != nullptr) push->push.cancel();
}

void wdelta_push_free(wdelta_push* push) { delete push; }

wdelta_status wdelta_commit_open(wdelta_repository* repository, const char* revision, const wdelta_callbacks* callbacks,
                                 wdelta_commit** commit, wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    *commit = nullptr;
    require(repository, "repository");
    *commit = new wdelta_commit{{repository->open, revision == nullptr ? "" : revision, callbacks}};
  });
}

wdelta_status wdelta_commit_summarise(wdelta_commit* commit, wdelta_commit_summary* summary, wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    give(summary, commit->commit.summary());
  });
}

wdelta_status wdelta_commit_file(wdelta_commit* commit, size_t index, wdelta_file* file, wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    give(file, commit->commit.file(index));
  });
}

wdelta_status wdelta_commit_tensor(wdelta_commit* commit, size_t index, wdelta_tensor_description* tensor,
                                   wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    give(tensor, commit->commit.tensor(index));
  });
}

wdelta_status wdelta_commit_find(wdelta_commit* commit, const char* name, const char* file,
                                 wdelta_tensor_description* tensor, wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    require(name, "name");
    give(tensor, commit->commit.find(name, file));
  });
}

wdelta_status wdelta_commit_fill(wdelta_commit* commit, const wdelta_tensor* tensors, size_t count,
                                 wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    if (count > 0) require(tensors, "tensors");
    std::vector<GivenTensor> given;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensors);
    for (std::size_t i = 0; i < count; ++i) {
      // As large as the caller's header has them.
      given.push_back(given_tensor(taken(reinterpret_cast<const wdelta_tensor*>(bytes + i * tensors->struct_size))));
    }
    commit->commit.fill(given);
  });
}

wdelta_status wdelta_commit_read(wdelta_commit* commit, const char* path, void* bytes, size_t size_bytes,
                                 wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    require(path, "path");
    if (size_bytes > 0) require(bytes, "bytes");
    commit->commit.read(path, {static_cast<std::uint8_t*>(bytes), size_bytes});
  });
}

wdelta_status wdelta_commit_read_size(wdelta_commit* commit, const char* path, uint64_t* size_bytes,
                                      wdelta_error* error) {
  return guarded(error, [&] {
    require(commit, "commit");
    require(path, "path");
    require(size_bytes, "size_bytes");
    *size_bytes = commit->commit.size_of(path);
  });
}

void wdelta_commit_cancel(wdelta_commit* commit) {
  if (commit != nullptr) commit->commit.cancel();
}

void wdelta_commit_free(wdelta_commit* commit) { delete commit; }
