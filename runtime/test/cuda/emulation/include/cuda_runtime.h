//===- cuda_runtime.h - CUDA's runtime, emulated on the CPU ---------------===//
//
// The part of CUDA that runtime/lib/cuda uses, with its names, signatures and meaning, so that its sources compile as
// C++ and run in tests without a GPU. The emulation makes programs fail that rely on more than CUDA promises:
//  - The threads of a block run one after the other, in an order that a seed chooses, and change only where they wait
//    for each other. Threads that do not meet at a barrier end the process with a text.
//  - Enqueued work only runs when a thread waits, in any order that streams and events allow, by the same seed.
//  - Fresh memory is filled with 0xff, and comes from malloc, so that AddressSanitizer finds accesses outside.
//
// Static shared memory is the exception: it keeps the values of the previous block.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUDA_RUNTIME_H
#define MOERT_TEST_CUDA_EMULATION_CUDA_RUNTIME_H

#define MOERT_CUDA_EMULATION 1

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

// --- Types -------------------------------------------------------------------

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

typedef enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorUnknown = 999
} cudaError_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMemoryPoolsSupported = 115
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
typedef struct CUmemPool_st *cudaMemPool_t;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
typedef enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2
} cudaStreamCaptureMode;
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
};

#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventDisableTiming 0x02
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *);

typedef struct CUuuid_st {
  char bytes[16];
} cudaUUID_t;
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  size_t sharedMemPerBlockOptin;
  int multiProcessorCount;
  int maxThreadsPerMultiProcessor;
  int major, minor;
};

// --- The host's side ---------------------------------------------------------

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);

cudaError_t cudaMalloc(void **data, size_t bytes);
cudaError_t cudaFree(void *data);
cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMallocHost(void **data, size_t bytes);
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data);

cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);

template <class T> cudaError_t cudaMalloc(T **data, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(data), bytes);
}
template <class T> cudaError_t cudaMallocHost(T **data, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void **>(data), bytes);
}
template <class T> cudaError_t cudaHostAlloc(T **data, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void **>(data), bytes, flags);
}
template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

namespace moert::emulation {

/// Enqueues body() for each thread of a grid, which begins when `ready`, if that is given. `kernel` is the key of
/// cudaFuncSetAttribute.
cudaError_t enqueueKernel(const void *kernel, dim3 grid, dim3 block, size_t sharedBytes, cudaStream_t stream,
                          std::function<void()> body, std::function<bool()> ready);
/// Enqueues the work of another library than CUDA's runtime on a stream.
cudaError_t enqueueWork(cudaStream_t stream, std::function<void()> body);

/// kernel<<<grid, block, sharedBytes, stream>>>(args...), which begins when `ready`, if that is given.
template <class... Params, class... Args>
cudaError_t launch(std::function<bool()> ready, void (*kernel)(Params...), dim3 grid, dim3 block, size_t sharedBytes,
                   cudaStream_t stream, Args... args) {
  std::tuple<std::remove_cv_t<Params>...> values(args...);
  return enqueueKernel(
      reinterpret_cast<const void *>(kernel), grid, block, sharedBytes, stream,
      [kernel, values] { std::apply(kernel, values); }, std::move(ready));
}

template <class... Params, class... Args>
cudaError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t sharedBytes, cudaStream_t stream,
                   Args... args) {
  return launch(nullptr, kernel, grid, block, sharedBytes, stream, args...);
}

} // namespace moert::emulation

#include "device_functions.h"

#endif // MOERT_TEST_CUDA_EMULATION_CUDA_RUNTIME_H
