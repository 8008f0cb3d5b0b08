// SPDX-License-Identifier: Apache-2.0
// What is promised where there is no memory: the last allocations of a call fail, each once, in a program whose
// operator new can. (Of the first ones some are JSON's, whose destructor ends the program where it cannot allocate.)
#include "c/host_memories.hpp"
#include "c/memory_commit.hpp"
#include "c/memory_push.hpp"
#include "testing/scratch.hpp"

#include <array>
#include <cstdlib>
#include <doctest/doctest.h>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

// Of this thread: how many allocations still succeed before one does not; less than 0: all do.
thread_local long allocations_left = -1;

void* allocate(std::size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace wdelta {

namespace {

constexpr long k_many = 1'000'000'000;

template <typename Work>
long allocations_of(Work work) {
  allocations_left = k_many;
  work();
  return k_many - std::exchange(allocations_left, -1);
}

enum class Ending { untouched, done, thrown };

// How `work` ends when that allocation, counted from 0 on, fails; untouched where it makes none of that number.
template <typename Work>
Ending ending_without(long allocation, Work work) {
  Ending ending = Ending::done;
  allocations_left = allocation;
  try {
    work();
    if (allocations_left >= 0) ending = Ending::untouched;
  } catch (const std::bad_alloc&) {
    ending = Ending::thrown;
  }
  allocations_left = -1;
  return ending;
}

std::shared_ptr<OpenRepository> open(const testing::ScratchDirectory& scratch) {
  const std::string state = "WDELTA_STATE_DIR=" + (scratch / "state").string();
  const std::array<const char*, 2> settings = {state.c_str(), nullptr};
  wdelta_repository_options options = WDELTA_REPOSITORY_OPTIONS_INIT;
  options.settings = settings.data();
  options.create = WDELTA_CREATE_REPOSITORY;
  options.threads = 1;
  return std::make_shared<OpenRepository>((scratch / "repo").c_str(), options);
}

constexpr std::int64_t k_size = 300'000;

GivenTensor tensor(const char* name, std::vector<std::uint8_t>& memory) {
  static const std::array<std::int64_t, 1> shape = {k_size};
  wdelta_tensor given = WDELTA_TENSOR_INIT;
  given.name = name;
  given.dtype = "U8";
  given.dimensions = 1;
  given.shape = shape.data();
  given.elements = memory.data();
  return given_tensor(given);
}

}  // namespace

TEST_CASE("a tensor that there was no memory to add is not there, nor is its file, and it can be added again") {
  testing::ScratchDirectory scratch;
  const auto repository = open(scratch);
  std::vector<std::uint8_t> memory(k_size, 7);
  GivenTensor other = tensor("other", memory);
  wdelta_push_options options = WDELTA_PUSH_OPTIONS_INIT;
  options.tensors = WDELTA_TENSORS_BORROWED;
  for (const char* file : {"model.safetensors", "other.safetensors"}) {
    other.file = file;
    std::optional<MemoryPush> push;
    const auto begin = [&] {
      push.emplace(repository, options);
      push->add(tensor("first", memory));
    };
    const auto add = [&] { push->add(other); };
    begin();
    const long allocations = allocations_of(add);
    for (long i = 1; i <= 3; ++i) {
      CAPTURE(i);
      begin();
      REQUIRE(ending_without(allocations - i, add) == Ending::thrown);
      push->commit();
      CHECK(MemoryCommit(repository, "", nullptr).summary().tensor_count == 1);
      CHECK(MemoryCommit(repository, "", nullptr).summary().file_count == 1);
      begin();
      REQUIRE(ending_without(allocations - i, add) == Ending::thrown);
      add();
    }
  }
}

TEST_CASE("memory that cannot be remembered is freed") {
  HostMemories memories;
  auto memory = memories.take(1000);
  allocations_left = 0;
  memories.give_back(std::move(memory));
  allocations_left = -1;
  CHECK(memories.take(1000)->bytes().size() == 1000);
}

}  // namespace wdelta
