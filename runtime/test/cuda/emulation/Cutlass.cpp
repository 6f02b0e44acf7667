//===- Cutlass.cpp - grouped kernels of CUTLASS, emulated -----------------===//
//
// Reads the arrays as the kernels do when the work runs, to show whether they are right.
//
//===----------------------------------------------------------------------===//

#include "Emulation.h"
#include "Multiply.h"
#include "Streams.h"
#include "cuda/RaggedGroups.h"
#include "cuda/Types.cuh"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

namespace moert {
namespace {
std::atomic<int> processors = 0;
} // namespace

int emulation::lastGroupedProcessors() { return processors; }

namespace cuda::cutlass_groups {
namespace {

/// TMA loads by 16 bytes.
void checkAligned(const void *data, int64_t leading) {
  if (reinterpret_cast<uintptr_t>(data) % 16 == 0 && leading % 8 == 0)
    return;
  std::fprintf(stderr, "CUDA emulation: a matrix of a grouped kernel is not aligned to 16 bytes\n");
  std::abort();
}

template <class T, class C> void multiplyOne(const RaggedProduct &product, const GroupArrays &arrays, int64_t e) {
  const int32_t *shape = arrays.shapes + 3 * e;
  const auto *a = static_cast<const T *>(arrays.a[e]), *b = static_cast<const T *>(arrays.b[e]);
  auto *c = static_cast<C *>(arrays.c[e]);
  const int64_t leadingA = arrays.leadingA[e], leadingB = arrays.leadingB[e], leadingC = arrays.leadingC[e];
  if (shape[0] == 0 || shape[1] == 0)
    return;
  checkAligned(a, leadingA);
  checkAligned(b, leadingB);
  checkAligned(c, leadingC);
  const int64_t rowA = product.isWeightGradient() ? 1 : leadingA, columnA = product.isWeightGradient() ? leadingA : 1;
  const int64_t rowB = product.transposeB ? 1 : leadingB, columnB = product.transposeB ? leadingB : 1;
  const std::vector<float> sums = emulation::product<float>(
      shape[0], shape[1], shape[2], [=](int64_t m, int64_t k) { return convert<float>(a[m * rowA + k * columnA]); },
      [=](int64_t k, int64_t n) { return convert<float>(b[k * rowB + n * columnB]); });
  const float *sum = sums.data();
  for (int64_t m = 0; m < shape[0]; ++m)
    for (int64_t n = 0; n < shape[1]; ++n, ++sum) {
      C &to = c[m * leadingC + n];
      to = convert<C>(product.accumulate ? convert<float>(to) + *sum : *sum);
    }
}

template <class T> Status enqueue(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
  auto run = [=] {
    for (int64_t e = 0; e < product.experts; ++e)
      product.isWide ? multiplyOne<T, float>(product, arrays, e) : multiplyOne<T, T>(product, arrays, e);
  };
  return check(emulation::enqueueWork(target.stream.stream, run), "cannot launch a grouped kernel");
}

} // namespace

template <int32_t Dtype, Tile Size, int Capability>
Status multiply(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
  if (product.dtype != Dtype || target.device.capability / 10 != Capability / 10)
    return Status::error(MOERT_ERROR_INTERNAL, "CUDA emulation: this grouped kernel is for another type or device");
  processors = target.freeProcessors();
  if (processors < target.device.multiProcessors) {
    emulation::Machine &machine = emulation::Machine::get();
    const std::lock_guard lock(machine.mutex);
    ++machine.smallGrids;
  }
  return Dtype == MOERT_BF16 ? enqueue<Bf16>(target, product, arrays) : enqueue<Half>(target, product, arrays);
}
#define MOERT_KERNELS(dtype, capability)                                                                               \
  template Status multiply<dtype, Tile::Tall, capability>(const Target &, const RaggedProduct &, const GroupArrays &); \
  template Status multiply<dtype, Tile::Wide, capability>(const Target &, const RaggedProduct &, const GroupArrays &); \
  template Status multiply<dtype, Tile::Small, capability>(const Target &, const RaggedProduct &, const GroupArrays &);
MOERT_KERNELS(MOERT_BF16, 90)
MOERT_KERNELS(MOERT_BF16, 100)
MOERT_KERNELS(MOERT_F16, 90)
MOERT_KERNELS(MOERT_F16, 100)

} // namespace cuda::cutlass_groups
} // namespace moert
