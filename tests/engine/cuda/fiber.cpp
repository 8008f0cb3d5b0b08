// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/fiber.hpp"

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// swapcontext() asks the kernel for the signal mask each time; this does not, and takes a few nanoseconds. Registers
// that a called function must keep go onto the stack that is left.
extern "C" void wdelta_switch_stack(void** left, void* entered);
asm(R"(
.text
.type wdelta_switch_stack, @function
wdelta_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size wdelta_switch_stack, .-wdelta_switch_stack
)");
#endif

namespace wdelta::testing {
namespace {

constexpr std::size_t k_guard_bytes = 4096;
constexpr std::size_t k_stack_bytes = std::size_t{128} << 10;

}  // namespace

struct Fiber::State {
  std::byte* mapping = nullptr;
  std::function<void()> work;
  bool has_ended = true;
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside;
  ucontext_t outside;
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* inside_frames = nullptr;
  void* outside_frames = nullptr;
  const void* outside_stack = nullptr;
  std::size_t outside_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* inside_thread = __tsan_create_fiber(0);
  void* outside_thread = nullptr;
#endif

  std::byte* stack() const { return mapping + k_guard_bytes; }

  void arrive() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(inside_frames, &outside_stack, &outside_bytes);
#endif
  }

  void leave() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&inside_frames, outside_stack, outside_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(outside_thread, 0);
#endif
#if defined(__x86_64__)
    wdelta_switch_stack(&inside, outside);
#else
    swapcontext(&inside, &outside);
#endif
    arrive();
  }

  void enter() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&outside_frames, stack(), k_stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    outside_thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(inside_thread, 0);
#endif
#if defined(__x86_64__)
    wdelta_switch_stack(&outside, inside);
#else
    swapcontext(&outside, &inside);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(outside_frames, nullptr, nullptr);
#endif
  }

  // Whatever is started on the stack, one after another.
  [[noreturn]] void run() {
    arrive();
    for (;;) {
      work();
      has_ended = true;
      leave();
    }
  }
};

namespace {

// Where a new stack begins: the fiber whose it is.
thread_local void (*begin_on_stack)(void*);
thread_local void* begin_with;

void first_frame() { begin_on_stack(begin_with); }

}  // namespace

Fiber::Fiber() : state_(std::make_unique<State>()) {
  void* const mapping = mmap(nullptr, k_guard_bytes + k_stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  state_->mapping = static_cast<std::byte*>(mapping);
  if (mprotect(mapping, k_guard_bytes, PROT_NONE) != 0) throw std::bad_alloc();
#if defined(__x86_64__)
  // As if first_frame() had been called, and was about to be returned to: aligned as behind a call.
  auto* top = reinterpret_cast<std::uint64_t*>(state_->stack() + k_stack_bytes);
  *--top = 0;
  *--top = reinterpret_cast<std::uint64_t>(&first_frame);
  for (int i = 0; i < 6; ++i) *--top = 0;
  state_->inside = top;
#else
  getcontext(&state_->inside);
  state_->inside.uc_stack.ss_sp = state_->stack();
  state_->inside.uc_stack.ss_size = k_stack_bytes;
  state_->inside.uc_link = nullptr;
  makecontext(&state_->inside, first_frame, 0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(state_->inside_thread);
#endif
  munmap(state_->mapping, k_guard_bytes + k_stack_bytes);
}

void Fiber::start(std::function<void()> work) {
  state_->work = std::move(work);
  state_->has_ended = false;
}

void Fiber::resume() {
  begin_on_stack = [](void* state) { static_cast<State*>(state)->run(); };
  begin_with = state_.get();
  state_->enter();
}

void Fiber::stop() { state_->leave(); }

bool Fiber::has_ended() const { return state_->has_ended; }

}  // namespace wdelta::testing
