//===- Cuda.cpp - CUDA's runtime with errors and owners -------------------===//

#include "cuda/Cuda.h"

#include <cstdlib>

namespace moert::cuda {

void useAllQueues() { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

static std::string hintFor(cudaError_t error) {
  int driver = 0, runtime = 0;
  switch (error) {
  case cudaErrorInsufficientDriver:
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    return driver == 0 ? "; install an NVIDIA driver (is nvidia-smi there?)"
                       : "; the driver is for CUDA " + versionText(driver) + ", this program needs one for " +
                             versionText(runtime);
  case cudaErrorNoDevice:
    return "; expected an NVIDIA GPU (check nvidia-smi and CUDA_VISIBLE_DEVICES)";
  default:
    return "";
  }
}

/// Whether the error says that an operation cannot be part of a graph.
static bool isOfCapture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

static int32_t codeOf(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation)
    return MOERT_ERROR_OUT_OF_MEMORY;
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || isOfCapture(error))
    return MOERT_ERROR_UNSUPPORTED;
  return MOERT_ERROR_INTERNAL;
}

Status check(cudaError_t error, const std::string &what) {
  if (error == cudaSuccess)
    return {};
  // Clears the error, so that the next call that asks for the last error does not find it.
  static_cast<void>(cudaGetLastError());
  return Status::error(codeOf(error), what, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")",
                       hintFor(error));
}

Status createStream(Stream &stream, Priority priority) {
  int usual = 0, urgent = 0;
  MOERT_RETURN_IF_ERROR(check(cudaDeviceGetStreamPriorityRange(&usual, &urgent), "cannot read priorities"));
  return check(cudaStreamCreateWithPriority(OutHandle(stream), cudaStreamNonBlocking,
                                            priority == Priority::Urgent ? urgent : usual),
               "cannot create a stream");
}

Status createEvent(bool isTimed, Event &event) {
  const unsigned flags = isTimed ? cudaEventDefault : cudaEventDisableTiming;
  return check(cudaEventCreateWithFlags(OutHandle(event), flags), "cannot create an event");
}

Status askMemory(int64_t &available, int64_t &total) {
  size_t free = 0, all = 0;
  MOERT_RETURN_IF_ERROR(check(cudaMemGetInfo(&free, &all), "cannot read the device's free memory"));
  available = static_cast<int64_t>(free);
  total = static_cast<int64_t>(all);
  return {};
}

Status follow(cudaStream_t stream, cudaStream_t before) {
  if (stream == before)
    return {};
  Event event;
  MOERT_RETURN_IF_ERROR(recordEvent(event, before));
  return awaitEvent(stream, event);
}

Status recordEvent(Event &event, cudaStream_t stream) {
  if (!event)
    MOERT_RETURN_IF_ERROR(createEvent(false, event));
  return check(cudaEventRecord(event.get(), stream), "cannot record an event");
}

Status awaitEvent(cudaStream_t stream, const Event &event) {
  return check(cudaStreamWaitEvent(stream, event.get()), "cannot wait for an event");
}

bool isPending(const Event &event) {
  const cudaError_t error = cudaEventQuery(event.get());
  if (error == cudaErrorNotReady)
    static_cast<void>(cudaGetLastError());
  return error == cudaErrorNotReady;
}

Status copyBytes(cudaStream_t stream, void *to, const void *from, int64_t bytes, const std::string &failure) {
  if (to == from || bytes <= 0)
    return {};
  return check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream), failure);
}

Status clearBytes(cudaStream_t stream, void *to, int64_t bytes, const std::string &failure) {
  return bytes <= 0 ? Status() : check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream), failure);
}

namespace {

/// Allows this thread to allocate while it captures a graph. CUDA refuses the calls for this otherwise, and invalidates
/// the capture. They touch no captured stream, so they are safe.
class Uncaptured {
public:
  Uncaptured() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode)); }
  ~Uncaptured() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode)); }
  Uncaptured(const Uncaptured &) = delete;

private:
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};

} // namespace

static std::string allocationText(int64_t bytes, const std::string &what) {
  return "cannot allocate " + std::to_string(bytes) + " bytes for " + what;
}

Status allocateArena(int64_t bytes, const std::string &what, DeviceMemory &memory) {
  return check(cudaMalloc(OutHandle(memory), static_cast<size_t>(bytes)), allocationText(bytes, what));
}

static Status askPools(int &device, bool &hasPools) {
  int value = 0;
  MOERT_RETURN_IF_ERROR(check(cudaGetDevice(&device), "cannot use a CUDA device"));
  MOERT_RETURN_IF_ERROR(check(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, device),
                              "cannot read the device's properties"));
  hasPools = value != 0;
  return {};
}

/// Allocates on a stream of its own, which is empty, so that the wait for it is short.
static Status allocateAside(int64_t bytes, bool isCleared, const std::string &what, DeviceMemory &memory) {
  int device = 0;
  bool hasPools = false;
  MOERT_RETURN_IF_ERROR(askPools(device, hasPools));
  const Uncaptured uncaptured;
  Stream stream;
  MOERT_RETURN_IF_ERROR(createStream(stream));
  if (hasPools)
    MOERT_RETURN_IF_ERROR(check(cudaMallocAsync(OutHandle(memory), static_cast<size_t>(bytes), stream.get()),
                                allocationText(bytes, what)));
  else
    MOERT_RETURN_IF_ERROR(allocateArena(bytes, what, memory));
  if (isCleared)
    MOERT_RETURN_IF_ERROR(clearBytes(stream.get(), memory.get(), bytes));
  // The memory can be used on all streams after this wait.
  return check(cudaStreamSynchronize(stream.get()), allocationText(bytes, what));
}

Status allocateDevice(int64_t bytes, const std::string &what, DeviceMemory &memory) {
  return allocateAside(bytes, false, what, memory);
}

Status allocateZeros(int64_t bytes, const std::string &what, DeviceMemory &memory) {
  return allocateAside(bytes, true, what, memory);
}

Status keepPool() {
  int device = 0;
  bool hasPools = false;
  MOERT_RETURN_IF_ERROR(askPools(device, hasPools));
  if (!hasPools)
    return {};
  cudaMemPool_t pool = nullptr;
  uint64_t kept = UINT64_MAX;
  MOERT_RETURN_IF_ERROR(check(cudaDeviceGetDefaultMemPool(&pool, device), "cannot use the device's memory pool"));
  return check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept),
               "cannot use the device's memory pool");
}

Status allocatePinned(int64_t bytes, const std::string &what, PinnedMemory &memory) {
  const Uncaptured uncaptured;
  const unsigned flags = cudaHostAllocPortable | cudaHostAllocMapped;
  return check(cudaHostAlloc(OutHandle(memory), static_cast<size_t>(bytes), flags), allocationText(bytes, what));
}

} // namespace moert::cuda
