//===- EmulationTest.cpp - errors that the emulated CUDA finds ------------===//

#include "emulation/Emulation.h"

#include <atomic>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <functional>
#include <gtest/gtest.h>
#include <nccl.h>
#include <numeric>
#include <thread>
#include <vector>

namespace moert::emulation {
namespace {

#define EXPECT_CUDA(expression) EXPECT_EQ(expression, cudaSuccess)

/// Memory of the device, freed at the end of the test.
template <class T> class Memory {
public:
  explicit Memory(size_t count) : count(count) { EXPECT_CUDA(cudaMalloc(&data, count * sizeof(T))); }
  ~Memory() { EXPECT_CUDA(cudaFree(data)); }
  operator T *() const { return data; }
  std::vector<T> read() const {
    std::vector<T> values(count);
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_CUDA(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

private:
  T *data = nullptr;
  size_t count;
};

class Stream {
public:
  Stream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { EXPECT_CUDA(cudaStreamDestroy(stream)); }
  operator cudaStream_t() const { return stream; }

private:
  cudaStream_t stream = nullptr;
};

class Event {
public:
  explicit Event(unsigned flags = cudaEventDisableTiming) { EXPECT_CUDA(cudaEventCreateWithFlags(&event, flags)); }
  ~Event() { EXPECT_CUDA(cudaEventDestroy(event)); }
  operator cudaEvent_t() const { return event; }

private:
  cudaEvent_t event = nullptr;
};

// --- Blocks ------------------------------------------------------------------

__global__ void whoAmI(unsigned *out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  atomicAdd(out + at, at + 1);
}

TEST(EmulationTest, EachThreadRunsOnce) {
  const unsigned count = 2 * 3 * 2 * 8 * 4 * 2;
  Memory<unsigned> out(count);
  EXPECT_CUDA(cudaMemsetAsync(out, 0, count * sizeof(unsigned), nullptr));
  EXPECT_CUDA(launch(whoAmI, dim3(2, 3, 2), dim3(8, 4, 2), 0, nullptr, static_cast<unsigned *>(out)));
  std::vector<unsigned> expected(count);
  std::iota(expected.begin(), expected.end(), 1u);
  EXPECT_EQ(out.read(), expected);
}

/// Sums a block's numbers in a tree.
__global__ void sumTree(int *out, bool isComplete) {
  auto *values = static_cast<int *>(dynamicShared());
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (isComplete)
      __syncthreads();
    if (threadIdx.x < half)
      values[threadIdx.x] += values[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = values[0];
}

TEST(EmulationTest, BarriersHoldThreadsTogether) {
  Memory<int> out(3);
  EXPECT_CUDA(launch(sumTree, dim3(3), dim3(256), 1024, nullptr, static_cast<int *>(out), true));
  EXPECT_EQ(out.read(), std::vector<int>(3, 255 * 128));
}

TEST(EmulationTest, MissingBarriersShow) {
  Memory<int> out(3);
  EXPECT_CUDA(launch(sumTree, dim3(3), dim3(256), 1024, nullptr, static_cast<int *>(out), false));
  EXPECT_NE(out.read(), std::vector<int>(3, 255 * 128));
}

__global__ void warpSums(int *out) {
  int sum = static_cast<int>(threadIdx.x);
  for (int bits = 16; bits > 0; bits /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, bits);
  const int before = __shfl_up_sync(0xffffffff, static_cast<int>(threadIdx.x), 1);
  const unsigned odd = __ballot_sync(0xffffffff, threadIdx.x & 1);
  const int quarter = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x), 1, 8);
  const int most = __reduce_max_sync(0xffffffff, static_cast<int>(threadIdx.x));
  int lower = 0;
  // Half of a warp may take another branch.
  if (threadIdx.x % 32 < 16)
    lower = __shfl_sync(0xffff, static_cast<int>(threadIdx.x), 15);
  int *mine = out + threadIdx.x * 6;
  mine[0] = sum;
  mine[1] = before;
  mine[2] = static_cast<int>(odd);
  mine[3] = quarter;
  mine[4] = most;
  mine[5] = lower;
}

TEST(EmulationTest, WarpsExchange) {
  Memory<int> out(64 * 6);
  EXPECT_CUDA(launch(warpSums, dim3(1), dim3(64), 0, nullptr, static_cast<int *>(out)));
  const std::vector<int> got = out.read();
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32;
    EXPECT_EQ(got[t * 6], first * 32 + 31 * 16);
    EXPECT_EQ(got[t * 6 + 1], t % 32 ? t - 1 : t);
    EXPECT_EQ(got[t * 6 + 2], static_cast<int>(0xaaaaaaaau));
    EXPECT_EQ(got[t * 6 + 3], t / 8 * 8 + 1);
    EXPECT_EQ(got[t * 6 + 4], first + 31);
    EXPECT_EQ(got[t * 6 + 5], t % 32 < 16 ? first + 15 : 0);
  }
}

__global__ void endsEarly() {
  if (threadIdx.x < 40)
    __syncthreads();
}
__global__ void waitsElsewhere() {
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void leavesWarp() {
  if (threadIdx.x % 32 != 7)
    __syncwarp();
}

void runAlone(void (*kernel)()) {
  static_cast<void>(launch(kernel, dim3(1), dim3(64), 0, nullptr));
  static_cast<void>(cudaDeviceSynchronize());
}

TEST(EmulationDeathTest, DivergentBarriersAreFound) {
  EXPECT_DEATH(runAlone(endsEarly), "wait for others that never come.*\n.*0 to 39: waits at __syncthreads in "
                                    ".*EmulationTest.cpp:[0-9]+\n.*40 to 63: has ended");
  EXPECT_DEATH(runAlone(waitsElsewhere), "wait at different barriers");
  EXPECT_DEATH(runAlone(leavesWarp), "wait for others that never come.*\n.*__syncwarp");
}

TEST(EmulationTest, LaunchesBeyondTheDeviceAreRefused) {
  EXPECT_EQ(launch(endsEarly, dim3(1), dim3(1025), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(endsEarly, dim3(0), dim3(32), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(endsEarly, dim3(1, 0x10000), dim3(32), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(endsEarly, dim3(1), dim3(32), 64 * 1024, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_CUDA(cudaFuncSetAttribute(waitsElsewhere, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
  EXPECT_EQ(cudaFuncSetAttribute(waitsElsewhere, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
            cudaErrorInvalidValue);
}

// --- Streams -----------------------------------------------------------------

__global__ void store(int *out, int value) { *out = value; }
__global__ void increment(int *out, const int *in) { *out = *in + 1; }

/// Writes on one stream and reads on another, which waits if `waits`. Returns whether the right value was read.
bool readsWhatWasWritten(uint64_t seed, bool waits) {
  setSeed(seed);
  Stream writer, reader;
  Event written;
  Memory<int> value(1), result(1);
  EXPECT_CUDA(launch(store, dim3(1), dim3(1), 0, writer, static_cast<int *>(value), 41));
  EXPECT_CUDA(cudaEventRecord(written, writer));
  EXPECT_CUDA(waits ? cudaStreamWaitEvent(reader, written) : cudaSuccess);
  EXPECT_CUDA(launch(increment, dim3(1), dim3(1), 0, reader, static_cast<int *>(result), static_cast<int *>(value)));
  return result.read()[0] == 42;
}

TEST(EmulationTest, AMissingWaitIsFound) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(readsWhatWasWritten(seed, true)) << seed;
    wrong += !readsWhatWasWritten(seed, false);
  }
  EXPECT_GT(wrong, 5);
}

TEST(EmulationTest, NothingRunsBeforeSomebodyWaits) {
  Stream stream;
  Event done;
  int *value = nullptr;
  EXPECT_CUDA(cudaMallocHost(&value, sizeof(int)));
  *value = 0;
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess);
  EXPECT_CUDA(launch(store, dim3(1), dim3(1), 0, stream, value, 3));
  EXPECT_CUDA(cudaEventRecord(done, stream));
  EXPECT_EQ(*value, 0);
  EXPECT_EQ(cudaEventQuery(done), cudaErrorNotReady);
  EXPECT_CUDA(cudaEventSynchronize(done));
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_CUDA(cudaFreeHost(value));
}

TEST(EmulationTest, MemoryIsFreedInTheOrderOfItsStream) {
  const size_t before = allocatedBytes();
  Stream stream;
  void *data = nullptr;
  EXPECT_CUDA(cudaMallocAsync(&data, 1000, stream));
  EXPECT_CUDA(launch(store, dim3(1), dim3(1), 0, stream, static_cast<int *>(data), 3));
  EXPECT_CUDA(cudaFreeAsync(data, stream));
  EXPECT_EQ(allocatedBytes(), before + 1000);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(allocatedBytes(), before);
  EXPECT_EQ(cudaFreeAsync(data, stream), cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST(EmulationTest, EventsTellTime) {
  Event begin(cudaEventDefault), end(cudaEventDefault), mute;
  EXPECT_CUDA(cudaEventRecord(begin));
  EXPECT_CUDA(cudaEventRecord(end));
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, mute), cudaErrorInvalidResourceHandle);
}

TEST(EmulationTest, DevicesHaveMemoryOfTheirOwn) {
  const size_t before = allocatedBytes();
  size_t available = 0, total = 0, rest = 0;
  EXPECT_CUDA(cudaMemGetInfo(&available, &total));
  {
    Memory<char> memory(1000);
    EXPECT_EQ(allocatedBytes(), before + 1000);
    EXPECT_EQ(memory.read(), std::vector<char>(1000, '\xff'));
    EXPECT_CUDA(cudaMemGetInfo(&rest, &total));
    EXPECT_EQ(rest, available - 1000);
    std::vector<char> more(1001);
    EXPECT_EQ(cudaMemcpy(memory, more.data(), 1001, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  }
  void *data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
  Stream here;
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(launch(store, dim3(1), dim3(1), 0, here, static_cast<int *>(nullptr), 1), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  failNext(cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorInsufficientDriver);
  static_cast<void>(cudaGetLastError());
}

// --- Graphs ------------------------------------------------------------------

TEST(EmulationTest, GraphsReplay) {
  Stream main, side;
  Event forked, joined;
  Memory<int> a(1), b(1), c(1);
  EXPECT_CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(launch(increment, dim3(1), dim3(1), 0, main, static_cast<int *>(a), static_cast<int *>(a)));
  EXPECT_CUDA(cudaEventRecord(forked, main));
  EXPECT_CUDA(cudaStreamWaitEvent(side, forked));
  EXPECT_CUDA(launch(increment, dim3(1), dim3(1), 0, side, static_cast<int *>(b), static_cast<int *>(a)));
  EXPECT_CUDA(cudaEventRecord(joined, side));
  EXPECT_CUDA(cudaStreamWaitEvent(main, joined));
  EXPECT_CUDA(launch(increment, dim3(1), dim3(1), 0, main, static_cast<int *>(c), static_cast<int *>(b)));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(main, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaMemsetAsync(a, 0, sizeof(int), main));
  for (int i = 0; i < 3; ++i)
    EXPECT_CUDA(cudaGraphLaunch(exec, main));
  EXPECT_CUDA(cudaStreamSynchronize(main));
  EXPECT_EQ(a.read()[0], 3);
  EXPECT_EQ(c.read()[0], 5);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST(EmulationTest, GraphsMustJoin) {
  Stream main, side;
  Event forked;
  Memory<int> a(1);
  EXPECT_CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(cudaEventRecord(forked, main));
  EXPECT_CUDA(cudaStreamWaitEvent(side, forked));
  EXPECT_CUDA(launch(store, dim3(1), dim3(1), 0, side, static_cast<int *>(a), 1));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(main, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_CUDA(cudaStreamSynchronize(side));
}

/// A capture of a stream, which ends with the object.
class Capture {
public:
  explicit Capture(cudaStreamCaptureMode mode) { EXPECT_CUDA(cudaStreamBeginCapture(stream, mode)); }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    if (graph) {
      EXPECT_CUDA(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaGetLastError());
    return error;
  }

  Stream stream;
};

/// Calls that CUDA counts as unsafe during a capture. They touch no captured stream.
const std::pair<const char *, std::function<cudaError_t()>> kUnsafe[] = {
    {"cudaMalloc",
     [] {
       void *data = nullptr;
       const cudaError_t error = cudaMalloc(&data, 16);
       return error == cudaSuccess ? cudaFree(data) : error;
     }},
    {"cudaHostAlloc",
     [] {
       void *data = nullptr;
       const cudaError_t error = cudaHostAlloc(&data, 16, 0);
       return error == cudaSuccess ? cudaFreeHost(data) : error;
     }},
    {"cudaStreamSynchronize", [] { return cudaStreamSynchronize(nullptr); }},
    {"cudaStreamQuery", [] { return cudaStreamQuery(nullptr); }},
    {"cudaEventQuery", [] { return cudaEventQuery(Event()); }},
    {"cudaEventSynchronize", [] { return cudaEventSynchronize(Event()); }},
    {"cudaMemcpy", [] {
       int from = 0, to = 0;
       return cudaMemcpy(&to, &from, sizeof(int), cudaMemcpyHostToHost);
     }}};

TEST(EmulationTest, UnsafeCallsInvalidateACapture) {
  for (const auto &[name, call] : kUnsafe)
    for (cudaStreamCaptureMode mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      Memory<int> a(1);
      Capture capture(mode);
      EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported) << name;
      EXPECT_EQ(launch(store, 1, 1, 0, capture.stream, static_cast<int *>(a), 1), cudaErrorStreamCaptureInvalidated);
      EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated) << name;
      EXPECT_CUDA(call()) << name;
    }
}

TEST(EmulationTest, UnsafeCallsAreAllowedInRelaxedMode) {
  for (const auto &[name, call] : kUnsafe) {
    Capture relaxed(cudaStreamCaptureModeRelaxed);
    EXPECT_CUDA(call()) << name;
    EXPECT_CUDA(relaxed.end());
    Capture capture(cudaStreamCaptureModeThreadLocal);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    EXPECT_CUDA(call()) << name;
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
    EXPECT_CUDA(capture.end());
  }
}

TEST(EmulationTest, OnlyGlobalCapturesConcernOtherThreads) {
  for (const auto &[name, call] : kUnsafe)
    for (cudaStreamCaptureMode mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      const bool isGlobal = mode == cudaStreamCaptureModeGlobal;
      Capture capture(mode);
      std::thread([&call = call, isGlobal] {
        EXPECT_EQ(call(), isGlobal ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
      }).join();
      EXPECT_EQ(capture.end(), isGlobal ? cudaErrorStreamCaptureInvalidated : cudaSuccess) << name;
    }
}

TEST(EmulationTest, NoModeAllowsAWaitForWhatIsCaptured) {
  const std::function<cudaError_t(cudaStream_t, cudaEvent_t)> waits[] = {
      [](cudaStream_t stream, cudaEvent_t) { return cudaStreamSynchronize(stream); },
      [](cudaStream_t, cudaEvent_t event) { return cudaEventQuery(event); },
      [](cudaStream_t, cudaEvent_t event) { return cudaEventSynchronize(event); },
      [](cudaStream_t, cudaEvent_t) { return cudaDeviceSynchronize(); }};
  for (const auto &wait : waits) {
    Event event;
    Capture capture(cudaStreamCaptureModeRelaxed);
    EXPECT_CUDA(cudaEventRecord(event, capture.stream));
    EXPECT_NE(wait(capture.stream, event), cudaSuccess);
    EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  }
}

// --- NCCL --------------------------------------------------------------------

TEST(EmulationTest, ACommunicatorEndsAfterTheGraphsThatCapturedIt) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  Memory<float> sum(4);
  Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(ncclAllReduce(sum, sum, 4, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  std::atomic<bool> hasEnded = false;
  std::thread aborts([&] {
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    hasEnded = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(hasEnded);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  aborts.join();
}

// --- Numbers and products ----------------------------------------------------

TEST(EmulationTest, NarrowTypesRoundToEven) {
  EXPECT_EQ(__float2bfloat16_rn(1.0f).bits, 0x3f80);
  EXPECT_EQ(__float2bfloat16_rn(1.00390625f).bits, 0x3f80); // half way, down to even
  EXPECT_EQ(__float2bfloat16_rn(1.01171875f).bits, 0x3f82); // half way, up to even
  EXPECT_EQ(__double2bfloat16(1.00390625 + 1e-12).bits, 0x3f81);
  EXPECT_EQ(__float2bfloat16_rn(3.4e38f).bits, 0x7f80);
  EXPECT_EQ(__float2half_rn(65504.0f).bits, 0x7bff);
  EXPECT_EQ(__float2half_rn(65520.0f).bits, 0x7c00);
  EXPECT_EQ(__float2half_rn(-5.9604644775390625e-8f).bits, 0x8001);
  EXPECT_TRUE(std::isnan(__half2float(__float2half_rn(NAN))));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const __half half{static_cast<uint16_t>(bits)};
    const __nv_bfloat16 bfloat{static_cast<uint16_t>(bits)};
    ASSERT_TRUE(std::isnan(__half2float(half)) || __float2half_rn(__half2float(half)).bits == bits) << bits;
    ASSERT_TRUE(std::isnan(__bfloat162float(bfloat)) || __float2bfloat16_rn(__bfloat162float(bfloat)).bits == bits)
        << bits;
  }
}

// --- Tensor cores and asynchronous copies ------------------------------------

/// out = a b of 16 x 16 each, by one warp. `b` may be transposed in memory.
__global__ void multiplyMatrices(const __half *a, const __half *b, bool isTransposed, float *out) {
  const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
  uint32_t left[4], right[4];
  loadMatrices(left, a + lane % 16 * 16 + lane / 16 * 8, false);
  // Matrices are ordered by their place in b: down its 16 contracted rows first.
  const __half *row =
      isTransposed ? b + (lane % 8 + lane / 16 * 8) * 16 + lane / 8 % 2 * 8 : b + lane % 16 * 16 + lane / 16 * 8;
  loadMatrices(right, row, !isTransposed);
  float sums[2][4] = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  multiplyTiles(sums[0], sums[1], left, right, [](uint16_t bits) { return __half2float(__half{bits}); });
  for (unsigned n = 0; n < 2; ++n)
    for (unsigned e = 0; e < 4; ++e)
      out[(g + e / 2 * 8) * 16 + 8 * n + 2 * t + e % 2] = sums[n][e];
}

TEST(EmulationTest, TensorCoresMultiply) {
  std::vector<__half> a(256), b(256);
  auto valueOf = [](size_t at) { return static_cast<float>(at * 7 % 23) - 11; };
  for (bool isTransposed : {false, true}) {
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 16; ++j) {
        a[i * 16 + j] = __float2half(valueOf(i * 16 + j));
        b[isTransposed ? j * 16 + i : i * 16 + j] = __float2half(valueOf(i * 5 + j * 3));
      }
    Memory<__half> left(256), right(256);
    Memory<float> out(256);
    EXPECT_CUDA(cudaMemcpy(left, a.data(), 512, cudaMemcpyHostToDevice));
    EXPECT_CUDA(cudaMemcpy(right, b.data(), 512, cudaMemcpyHostToDevice));
    EXPECT_CUDA(launch(multiplyMatrices, 1, 32, 0, nullptr, static_cast<__half *>(left), static_cast<__half *>(right),
                       isTransposed, static_cast<float *>(out)));
    const std::vector<float> got = out.read();
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 16; ++j) {
        float sum = 1;
        for (size_t k = 0; k < 16; ++k)
          sum += valueOf(i * 16 + k) * valueOf(k * 5 + j * 3);
        EXPECT_EQ(got[i * 16 + j], sum);
      }
  }
}

/// The last 4 of 8 words are zeros.
__global__ void copyAsynchronously(const uint32_t *in, uint32_t *out) {
  auto *shared = static_cast<uint32_t *>(dynamicShared());
  __pipeline_memcpy_async(shared, in, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(shared + 4, in, 16, 16);
  __pipeline_commit();
  out[0] = shared[0];
  __pipeline_wait_prior(1);
  out[1] = shared[3];
  out[2] = shared[4];
  __pipeline_wait_prior(0);
  out[3] = shared[4];
}

TEST(EmulationTest, CopiesComeWhenTheyAreWaitedFor) {
  Memory<uint32_t> in(4), out(4);
  const std::vector<uint32_t> values{5, 6, 7, 8};
  EXPECT_CUDA(cudaMemcpy(in, values.data(), 16, cudaMemcpyHostToDevice));
  EXPECT_CUDA(launch(copyAsynchronously, 1, 1, 32, nullptr, static_cast<uint32_t *>(in), static_cast<uint32_t *>(out)));
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{~0u, 8, ~0u, 0}));
}

} // namespace
} // namespace moert::emulation
