//===- device_functions.h - functions for kernels, emulated ---------------===//
//
// A kernel's threads run one after the other, so atomics are plain accesses.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_DEVICE_FUNCTIONS_H
#define MOERT_TEST_CUDA_EMULATION_DEVICE_FUNCTIONS_H

#include <atomic>

// Place of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace moert::emulation {

/// Place of a call of a barrier, which is evaluated as an argument's default. clang 14 has no std::source_location.
struct Where {
  const char *file;
  int line;

  static constexpr Where current(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Place and kind of a thread's wait.
struct Site {
  const char *barrier;
  Where where;

  bool operator==(const Site &other) const {
    return where.line == other.where.line &&
           (where.file == other.where.file || std::strcmp(where.file, other.where.file) == 0);
  }
};

/// Waits for all threads of the block.
void waitForBlock(Site site);
/// Waits for the lanes of the calling thread's warp in `mask`. Returns the value of each, valid until the thread waits
/// again.
const uint64_t *exchangeInWarp(Site site, unsigned mask, uint64_t value);
unsigned laneIndex();
/// The dynamic shared memory of the block.
void *dynamicShared();

template <class T> uint64_t packed(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T> T unpacked(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// Value of lane source(lane, width) within the segment of `width` lanes, or the own value if that lane is outside.
template <class T, class Source> T shuffle(Site site, unsigned mask, T value, int width, Source source) {
  const uint64_t *given = exchangeInWarp(site, mask, packed(value));
  const int lane = static_cast<int>(laneIndex()), first = lane / width * width;
  const int from = source(lane - first);
  const bool isWithin = from >= 0 && from < width;
  return unpacked<T>(given[isWithin ? first + from : lane]);
}

template <class T, class Function> T reduceInWarp(Site site, unsigned mask, T value, Function function) {
  const uint64_t *given = exchangeInWarp(site, mask, packed(value));
  bool isFirst = true;
  T result{};
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) {
      result = isFirst ? unpacked<T>(given[lane]) : function(result, unpacked<T>(given[lane]));
      isFirst = false;
    }
  return result;
}

template <class T, class Function> T exchangeAtomically(T *address, Function function) {
  T old = *address;
  *address = function(old);
  return old;
}

} // namespace moert::emulation

inline void __syncthreads(moert::emulation::Where where = moert::emulation::Where::current()) {
  moert::emulation::waitForBlock({"__syncthreads", where});
}
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __syncwarp(unsigned mask = 0xffffffff, moert::emulation::Where where = moert::emulation::Where::current()) {
  moert::emulation::exchangeInWarp({"__syncwarp", where}, mask, 0);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              moert::emulation::Where where = moert::emulation::Where::current()) {
  return moert::emulation::shuffle({"__shfl_sync", where}, mask, value, width,
                                   [=](int) { return source & (width - 1); });
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 moert::emulation::Where where = moert::emulation::Where::current()) {
  return moert::emulation::shuffle({"__shfl_up_sync", where}, mask, value, width,
                                   [=](int lane) { return lane - static_cast<int>(delta); });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  moert::emulation::Where where = moert::emulation::Where::current()) {
  return moert::emulation::shuffle({"__shfl_xor_sync", where}, mask, value, width,
                                   [=](int lane) { return lane ^ bits; });
}
inline unsigned __ballot_sync(unsigned mask, int value,
                              moert::emulation::Where where = moert::emulation::Where::current()) {
  const uint64_t *given = moert::emulation::exchangeInWarp({"__ballot_sync", where}, mask, value != 0);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    result |= mask >> lane & 1 && given[lane] ? 1u << lane : 0u;
  return result;
}
inline unsigned __match_any_sync(unsigned mask, unsigned value,
                                 moert::emulation::Where where = moert::emulation::Where::current()) {
  const uint64_t *given = moert::emulation::exchangeInWarp({"__match_any_sync", where}, mask, value);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    result |= mask >> lane & 1 && given[lane] == value ? 1u << lane : 0u;
  return result;
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, moert::emulation::Where where = moert::emulation::Where::current()) {
  return moert::emulation::reduceInWarp({"__reduce_min_sync", where}, mask, value,
                                        [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, moert::emulation::Where where = moert::emulation::Where::current()) {
  return moert::emulation::reduceInWarp({"__reduce_max_sync", where}, mask, value,
                                        [](T a, T b) { return a < b ? b : a; });
}

// --- Memory ------------------------------------------------------------------

template <class T> T atomicAdd(T *address, std::type_identity_t<T> value) {
  return moert::emulation::exchangeAtomically(address, [=](T old) { return static_cast<T>(old + value); });
}
template <class T> T atomicMax(T *address, std::type_identity_t<T> value) {
  return moert::emulation::exchangeAtomically(address, [=](T old) { return old < value ? value : old; });
}
template <class T> T atomicCAS(T *address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return moert::emulation::exchangeAtomically(address, [=](T old) { return old == expected ? value : old; });
}

// --- Numbers -----------------------------------------------------------------

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
/// These are as inexact as the instructions: the product is rounded before its power of two, and large divisors give 0.
inline float __expf(float x) { return std::exp2(x * 1.4426950408889634f); }
inline float __fdividef(float x, float y) { return std::abs(y) > 0x1p126f && std::isfinite(y) ? x * 0 : x * (1 / y); }

// --- Tensor cores ------------------------------------------------------------
// Not CUDA's functions but the instructions of PTX that kernels use, spread over lanes as its manual says.

namespace moert::emulation {

/// ldmatrix of four matrices of 8 x 8, transposed or not. `row` is the address that the lane gives.
void loadMatrices(uint32_t (&to)[4], const void *row, bool isTransposed, Where where = Where::current());
/// mma.m16n8k16 of one left and two right operands. The bits of their elements are spread over the lanes, and `widen`
/// turns them into numbers.
void multiplyTiles(float (&first)[4], float (&second)[4], const uint32_t (&left)[4], const uint32_t (&right)[4],
                   float (*widen)(uint16_t), Where where = Where::current());

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_DEVICE_FUNCTIONS_H
