//===- Fiber.cpp - a stack of its own for a part of a thread's work -------===//

#include "Fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

// GCC says so by a macro, clang by a feature.
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
  getcontext(&inside);
  inside.uc_stack.ss_sp = static_cast<char *>(memory) + guard;
  inside.uc_stack.ss_size = kStackBytes;
  inside.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside, reinterpret_cast<void (*)()>(&Fiber::start), 2, static_cast<unsigned>(self >> 32),
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

void Fiber::enter() {
#ifdef MOERT_ASAN
  __sanitizer_start_switch_fiber(&outsideFake, inside.uc_stack.ss_sp, inside.uc_stack.ss_size);
#endif
#ifdef MOERT_TSAN
  outsideTsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(insideTsan, 0);
#endif
  swapcontext(&outside, &inside);
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
  swapcontext(&inside, &outside);
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
