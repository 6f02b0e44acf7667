//===- Runtime.cpp - devices, memory and launches -------------------------===//

#include "Emulation.h"
#include "Streams.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

struct CUmemPool_st {
  uint64_t kept = 0;
};

namespace moert::emulation {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr size_t kStaticShared = 48 * 1024, kMostShared = 99 * 1024;

struct Allocation {
  size_t bytes;
  int device; ///< -1 for pinned memory
};

/// by the first byte
std::map<char *, Allocation> allocations;
std::map<const void *, size_t> sharedLimits;
thread_local cudaError_t lastError = cudaSuccess;

/// Used bytes by device, kept as a sum because tests allocate many small blocks.
std::map<int, size_t> usedBytes;

/// The memory pool of a device.
CUmemPool_st &poolOf(int device) {
  static std::map<int, CUmemPool_st> pools;
  return pools[device];
}

std::map<char *, Allocation>::iterator allocationOf(const void *data) {
  auto *address = static_cast<char *>(const_cast<void *>(data));
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return allocations.end();
  --next;
  // An allocation of no bytes also has an address.
  return address < next->first + next->second.bytes || address == next->first ? next : allocations.end();
}

bool isWithin(const void *data, size_t bytes) {
  auto found = allocationOf(data);
  return found == allocations.end() || static_cast<const char *>(data) + bytes <= found->first + found->second.bytes;
}

/// Allocates. Only stream-ordered memory comes without a wait for all streams of the device.
cudaError_t allocate(void **data, size_t bytes, int device, bool isOrdered = false) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  *data = nullptr;
  ++machine.allocations;
  if (cudaError_t error = machine.checkUnsafe(); error != cudaSuccess)
    return noted(error);
  if (!isOrdered)
    machine.drainDevice();
  if (cudaError_t error = injected(machine); error != cudaSuccess)
    return noted(error);
  if (device >= 0 && usedBytes[device] + bytes > machine.memory)
    return noted(cudaErrorMemoryAllocation);
  if (bytes == 0)
    return cudaSuccess;
  if (posix_memalign(data, 256, bytes) != 0)
    return noted(cudaErrorMemoryAllocation);
  std::memset(*data, 0xff, bytes);
  allocations[static_cast<char *>(*data)] = {bytes, device};
  usedBytes[device] += bytes;
  return cudaSuccess;
}

/// Frees an allocation. The caller holds the machine's mutex.
void freeNow(std::map<char *, Allocation>::iterator found) {
  usedBytes[found->second.device] -= found->second.bytes;
  std::free(found->first);
  allocations.erase(found);
}

cudaError_t release(void *data, bool isPinned) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (!data)
    return cudaSuccess;
  auto found = allocations.find(static_cast<char *>(data));
  if (found == allocations.end() || (found->second.device < 0) != isPinned)
    return noted(cudaErrorInvalidValue);
  if (cudaError_t error = machine.checkUnsafe(); error != cudaSuccess)
    return noted(error);
  machine.drain();
  freeNow(found);
  return cudaSuccess;
}

} // namespace

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

uint64_t keptBytes() { return poolOf(currentDevice()).kept; }

size_t allocatedBytes() {
  Lock lock(Machine::get().mutex);
  size_t bytes = 0;
  for (auto &[data, allocation] : allocations)
    bytes += allocation.bytes;
  return bytes;
}

size_t pinnedBytes() {
  Lock lock(Machine::get().mutex);
  size_t bytes = 0;
  for (auto &[data, allocation] : allocations)
    bytes += allocation.device < 0 ? allocation.bytes : 0;
  return bytes;
}

cudaError_t enqueueKernel(const void *kernel, dim3 grid, dim3 block, size_t sharedBytes, cudaStream_t stream,
                          std::function<void()> body, std::function<bool()> ready) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = injected(machine); error != cudaSuccess)
    return noted(error);
  auto limit = sharedLimits.find(kernel);
  if (sharedBytes > (limit == sharedLimits.end() ? kStaticShared : limit->second))
    return noted(cudaErrorInvalidValue);
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7fffffff || grid.y > 0xffff || grid.z > 0xffff)
    return noted(cudaErrorInvalidConfiguration);
  ++machine.launches;
  auto run = [work = Grid{grid, block, sharedBytes, std::move(body)}] { runGrid(work, Machine::get().random); };
  return noted(machine.enqueue(machine.resolve(stream), std::move(run), std::move(ready)));
}

cudaError_t adopt(void *data, size_t bytes) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  const int device = currentDevice();
  if (usedBytes[device] + bytes > machine.memory)
    return noted(cudaErrorMemoryAllocation);
  std::memset(data, 0xff, bytes);
  allocations[static_cast<char *>(data)] = {bytes, device};
  usedBytes[device] += bytes;
  return cudaSuccess;
}

size_t disown(void *data) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  auto found = allocations.find(static_cast<char *>(data));
  if (found == allocations.end())
    return 0;
  machine.drain();
  const size_t bytes = found->second.bytes;
  usedBytes[found->second.device] -= bytes;
  allocations.erase(found);
  return bytes;
}

} // namespace moert::emulation

using namespace moert::emulation;

// --- Errors and devices ------------------------------------------------------

static const std::map<cudaError_t, std::pair<const char *, const char *>> &errorTexts() {
  static const std::map<cudaError_t, std::pair<const char *, const char *>> texts{
      {cudaSuccess, {"cudaSuccess", "no error"}},
      {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
      {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
      {cudaErrorInvalidConfiguration, {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
      {cudaErrorInsufficientDriver,
       {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"}},
      {cudaErrorNoDevice, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
      {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
      {cudaErrorInvalidResourceHandle, {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
      {cudaErrorNotReady, {"cudaErrorNotReady", "device not ready"}},
      {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
      {cudaErrorStreamCaptureUnsupported,
       {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
      {cudaErrorStreamCaptureInvalidated,
       {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"}}};
  return texts;
}

const char *cudaGetErrorString(cudaError_t error) {
  auto found = errorTexts().find(error);
  return found == errorTexts().end() ? "unrecognized error code" : found->second.second;
}
const char *cudaGetErrorName(cudaError_t error) {
  auto found = errorTexts().find(error);
  return found == errorTexts().end() ? "cudaErrorUnknown" : found->second.first;
}
cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }

cudaError_t cudaDriverGetVersion(int *version) {
  const char *text = std::getenv("CUDA_EMULATION_DRIVER");
  *version = text ? std::atoi(text) : 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  *count = machine.devices;
  if (cudaError_t error = injected(machine); error != cudaSuccess)
    return noted(error);
  return machine.devices > 0 ? cudaSuccess : noted(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (device < 0 || device >= machine.devices)
    return noted(cudaErrorInvalidDevice);
  currentDevice() = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = currentDevice();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (device < 0 || device >= machine.devices)
    return noted(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated device %d", device);
  properties->uuid.bytes[15] = static_cast<char>(machine.numberOf(device));
  properties->totalGlobalMem = machine.memory;
  properties->sharedMemPerBlock = kStaticShared;
  properties->sharedMemPerBlockOptin = kMostShared;
  // Few enough that loops over the grid run more than once in tests.
  properties->multiProcessorCount = 2;
  properties->maxThreadsPerMultiProcessor = 1024;
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return error;
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = properties.multiProcessorCount;
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = properties.maxThreadsPerMultiProcessor;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = properties.major;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = properties.minor;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = static_cast<int>(properties.sharedMemPerBlockOptin);
    return cudaSuccess;
  case cudaDevAttrMemoryPoolsSupported:
    *value = 1;
    return cudaSuccess;
  }
  return noted(cudaErrorInvalidValue);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value) {
  Lock lock(Machine::get().mutex);
  if (value < 0 || static_cast<size_t>(value) > kMostShared)
    return noted(cudaErrorInvalidValue);
  sharedLimits[kernel] = std::max(kStaticShared, static_cast<size_t>(value));
  return cudaSuccess;
}

// --- Memory ------------------------------------------------------------------

cudaError_t cudaMalloc(void **data, size_t bytes) { return allocate(data, bytes, currentDevice()); }
/// Unlike cudaMalloc, this does not wait for other streams. The stream must be of the current device.
cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t stream) {
  {
    Machine &machine = Machine::get();
    Lock lock(machine.mutex);
    if (machine.resolve(stream).device != currentDevice())
      return noted(cudaErrorInvalidResourceHandle);
  }
  return allocate(data, bytes, currentDevice(), true);
}
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  auto found = allocations.find(static_cast<char *>(data));
  if (found == allocations.end() || found->second.device < 0)
    return noted(cudaErrorInvalidValue);
  return noted(machine.enqueue(machine.resolve(stream), [found] { freeNow(found); }));
}
cudaError_t cudaFree(void *data) { return release(data, false); }
cudaError_t cudaMallocHost(void **data, size_t bytes) { return allocate(data, bytes, -1); }
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned) { return allocate(data, bytes, -1); }
cudaError_t cudaFreeHost(void *data) { return release(data, true); }

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  Lock lock(Machine::get().mutex);
  *pool = &poolOf(device);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void *value) {
  Lock lock(Machine::get().mutex);
  pool->kept = *static_cast<uint64_t *>(value);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  *total = machine.memory;
  *available = machine.memory - usedBytes[currentDevice()];
  return cudaSuccess;
}

/// Memory that CUDA did not allocate is read and written before the call returns.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = injected(machine); error != cudaSuccess)
    return noted(error);
  if (!isWithin(to, bytes) || !isWithin(from, bytes))
    return noted(cudaErrorInvalidValue);
  CUstream_st &resolved = machine.resolve(stream);
  std::function<void()> copy = [=] {
    if (bytes > 0)
      std::memmove(to, from, bytes);
  };
  if (bytes > 0 && allocationOf(from) == allocations.end()) {
    const auto *first = static_cast<const char *>(from);
    copy = [to, staged = std::vector<char>(first, first + bytes)] { std::memcpy(to, staged.data(), staged.size()); };
  }
  ++machine.launches;
  cudaError_t error = machine.enqueue(resolved, std::move(copy));
  if (error == cudaSuccess && allocationOf(to) == allocations.end() && !resolved.graph)
    machine.runUntil([&] { return resolved.tasks.empty(); });
  return noted(error);
}

/// Refuses a call that waits for the default stream, which no capture includes.
static cudaError_t checkMayWait() {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  return noted(machine.checkUnsafe());
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  if (cudaError_t error = checkMayWait(); error != cudaSuccess)
    return error;
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (!isWithin(to, bytes))
    return noted(cudaErrorInvalidValue);
  ++machine.launches;
  return noted(machine.enqueue(machine.resolve(stream), [=] {
    if (bytes > 0)
      std::memset(to, value, bytes);
  }));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  if (cudaError_t error = checkMayWait(); error != cudaSuccess)
    return error;
  cudaError_t error = cudaMemsetAsync(to, value, bytes, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}
