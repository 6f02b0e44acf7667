//===- Launch.cuh - launching kernels and noting their faults -------------===//
//
// Only this header, and Mma.cuh for tensor cores, depend on whether nvcc compiles them or a C++ compiler for the tests'
// emulation.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_LAUNCH_CUH
#define MOERT_CUDA_LAUNCH_CUH

#include "cuda/Context.h"

namespace moert::cuda {

inline constexpr int kWarp = 32;
/// Threads of a block of the kernels that are bound by memory.
inline constexpr int kThreads = 256;

inline int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Grid {
  dim3 blocks{1, 1, 1}, threads{kThreads, 1, 1};
  int64_t sharedBytes = 0;
};

/// Grid with as many blocks of kThreads as `threads` need, and no more than keep the device busy. Kernels loop over the
/// rest.
inline Grid gridOf(const Target &target, int64_t threads) {
  const int64_t most = int64_t(target.device.multiProcessors) * 16;
  Grid grid;
  grid.blocks.x = static_cast<unsigned>(std::clamp<int64_t>(divideUp(threads, kThreads), 1, most));
  return grid;
}

/// Dynamic shared memory that a block has by default.
inline constexpr int64_t kSharedBytes = 48 << 10;

/// Launches kernel<<<grid>>>(args...) on a stream. The kernel may wait until `ready()`. The emulation, which runs one
/// kernel at a time, begins it only then.
template <class Ready, class... Params, class... Args>
cudaError_t launchOn(cudaStream_t stream, [[maybe_unused]] Ready ready, void (*kernel)(Params...), const Grid &grid,
                     Args... args) {
  const auto sharedBytes = static_cast<size_t>(grid.sharedBytes);
#ifdef MOERT_CUDA_EMULATION
  return emulation::launch(ready, kernel, grid.blocks, grid.threads, sharedBytes, stream, args...);
#else
  kernel<<<grid.blocks, grid.threads, sharedBytes, stream>>>(args...);
  return cudaGetLastError();
#endif
}

/// Launches a kernel that waits until `ready()` on the target's stream.
template <class Ready, class... Params, class... Args>
Status launchWhen(Ready ready, void (*kernel)(Params...), const Grid &grid, const Target &target, Args... args) {
  if (grid.sharedBytes > kSharedBytes)
    MOERT_RETURN_IF_ERROR(check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.sharedBytes)),
        std::string("not enough shared memory for '") + kindName(target.kind) + "'"));
  const cudaError_t error = launchOn(target.stream.stream, ready, kernel, grid, args...);
  if (error == cudaSuccess)
    return {};
  return check(error, std::string("cannot launch '") + kindName(target.kind) + "'");
}

/// Launches kernel<<<grid>>>(args...) on the target's stream.
template <class... Params, class... Args>
Status launch(void (*kernel)(Params...), const Grid &grid, const Target &target, Args... args) {
  return launchWhen(nullptr, kernel, grid, target, args...);
}

/// Dynamic shared memory of the block.
template <class T> __device__ T *sharedMemory() {
#ifdef MOERT_CUDA_EMULATION
  return static_cast<T *>(emulation::dynamicShared());
#else
  extern __shared__ __align__(16) unsigned char moertShared[];
  return reinterpret_cast<T *>(moertShared);
#endif
}

/// Notes a fault if it is the first. The cell is in the host's memory, so a kernel without faults does not read it.
__device__ inline void raise(FaultSite site, FaultKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0,
                             int64_t d = 0) {
  if (atomicCAS(&site.cell->kind, 0, static_cast<int32_t>(kind)) != 0)
    return;
  site.cell->kernel = site.kernel;
  site.cell->op = site.op;
  site.cell->values[0] = a;
  site.cell->values[1] = b;
  site.cell->values[2] = c;
  site.cell->values[3] = d;
}

} // namespace moert::cuda

#endif // MOERT_CUDA_LAUNCH_CUH
