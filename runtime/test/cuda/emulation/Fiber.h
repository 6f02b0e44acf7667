//===- Fiber.h - a stack of its own for a part of a thread's work ---------===//
#ifndef MOERT_TEST_CUDA_EMULATION_FIBER_H
#define MOERT_TEST_CUDA_EMULATION_FIBER_H

#include <cstddef>
#include <functional>
#include <ucontext.h>

namespace moert::emulation {

/// Runs `body` repeatedly, from its beginning each time it is entered after its end.
class Fiber {
public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Runs the fiber until it leaves. Only callable from outside of fibers.
  void enter();
  /// Returns to the caller of enter(). Only callable from within the fiber.
  void leave();

private:
  /// A point of the program, its registers and its stack.
  using Place = void *[5];

  static void start(unsigned high, unsigned low);
  static void jump(Place &place);
  void swapInside();
  void swapOutside();
  [[noreturn]] void loop();

  std::function<void()> body;
  void *memory = nullptr; ///< a guard page, then the stack
  size_t memoryBytes = 0;
  ucontext_t first{}; ///< context in which the fiber begins
  bool begun = false;
  /// Places where the fiber left, and from where it was entered.
  Place inside{}, outside{};
  // Data of sanitizers about the two stacks.
  [[maybe_unused]] void *insideFake = nullptr, *outsideFake = nullptr;
  [[maybe_unused]] const void *outsideStack = nullptr;
  [[maybe_unused]] size_t outsideBytes = 0;
  [[maybe_unused]] void *insideTsan = nullptr, *outsideTsan = nullptr;
};

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_FIBER_H
