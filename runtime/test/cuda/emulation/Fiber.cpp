//===- Fiber.cpp - a stack of its own for a part of a thread's work -------===//

#include "Fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

// GCC reports a sanitizer by a macro, clang by a feature.
#if defined(__SANITIZE_ADDRESS__)
#define MOERT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define MOERT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOERT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define MOERT_TSAN 1
#endif
#endif

#ifdef MOERT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef MOERT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace moert::emulation {

static constexpr size_t kStackBytes = 256 * 1024;

Fiber::Fiber(std::function<void()> body) : body(std::move(body)) {
  const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  memoryBytes = guard + kStackBytes;
  memory = mmap(nullptr, memoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    std::perror("CUDA emulation: the stack of a thread");
    std::abort();
  }
  getcontext(&first);
  first.uc_stack.ss_sp = static_cast<char *>(memory) + guard;
  first.uc_stack.ss_size = kStackBytes;
  first.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&first, reinterpret_cast<void (*)()>(&Fiber::start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#ifdef MOERT_TSAN
  insideTsan = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef MOERT_TSAN
  __tsan_destroy_fiber(insideTsan);
#endif
  munmap(memory, memoryBytes);
}

// Jumps by the compiler's own instructions. swapcontext makes a system call for each switch, which took most of the
// time of an emulated kernel. Sanitizers do not see these jumps, and would otherwise mark the whole stack as valid at
// each.
[[gnu::noinline, gnu::no_sanitize("address", "thread")]] void Fiber::jump(Place &place) { __builtin_longjmp(place, 1); }

[[gnu::noinline, gnu::no_sanitize("address", "thread")]] void Fiber::swapInside() {
  if (__builtin_setjmp(outside) != 0)
    return;
  if (begun)
    jump(inside);
  begun = true;
  setcontext(&first);
}

[[gnu::noinline, gnu::no_sanitize("address", "thread")]] void Fiber::swapOutside() {
  if (__builtin_setjmp(inside) == 0)
    jump(outside);
}

void Fiber::enter() {
#ifdef MOERT_ASAN
  __sanitizer_start_switch_fiber(&outsideFake, first.uc_stack.ss_sp, first.uc_stack.ss_size);
#endif
#ifdef MOERT_TSAN
  outsideTsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(insideTsan, 0);
#endif
  swapInside();
#ifdef MOERT_ASAN
  __sanitizer_finish_switch_fiber(outsideFake, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#ifdef MOERT_ASAN
  __sanitizer_start_switch_fiber(&insideFake, outsideStack, outsideBytes);
#endif
#ifdef MOERT_TSAN
  __tsan_switch_to_fiber(outsideTsan, 0);
#endif
  swapOutside();
#ifdef MOERT_ASAN
  __sanitizer_finish_switch_fiber(insideFake, &outsideStack, &outsideBytes);
#endif
}

void Fiber::start(unsigned high, unsigned low) {
  reinterpret_cast<Fiber *>(static_cast<uintptr_t>(high) << 32 | low)->loop();
}

void Fiber::loop() {
#ifdef MOERT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outsideStack, &outsideBytes);
#endif
  for (;;) {
    body();
    leave();
  }
}

} // namespace moert::emulation
