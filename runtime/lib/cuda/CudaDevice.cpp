//===- CudaDevice.cpp - one GPU's memory and streams ----------------------===//

#include "cuda/CudaDevice.h"

#include "core/Attributes.h"
#include "cuda/CudaKernels.h"
#include "host/HostMemory.h"

#include <cstdlib>
#include <mutex>
#include <optional>

namespace moert::cuda {
namespace {

/// Memory that this process took of its device, in all worlds.
struct Taken {
  std::mutex mutex;
  std::optional<int64_t> atFirst; ///< bytes available before the first allocation
  int64_t allocated = 0;          ///< bytes of plans

  static Taken &get() {
    static Taken taken;
    return taken;
  }
};

} // namespace

Status noteMemoryAtFirst() {
  Taken &taken = Taken::get();
  std::lock_guard lock(taken.mutex);
  int64_t available, total;
  if (taken.atFirst)
    return {};
  MOERT_RETURN_IF_ERROR(askMemory(available, total));
  taken.atFirst = available;
  return {};
}

DeviceOptions deviceOptions(const BackendOptions &options) {
  auto read = [](const char *name) {
    const char *text = std::getenv(name);
    return std::string(text ? text : "");
  };
  DeviceOptions device;
  device.tf32 = options.tf32;
  device.choices = read("MOERT_PRODUCTS");
  device.deterministic = read("MOERT_DETERMINISTIC");
  device.transferProcessors = read("MOERT_TRANSFER_SMS");
  return device;
}

std::vector<std::string> CudaDevice::raggedMethods() const {
  std::vector<std::string> names;
  for (RaggedMethod method : kRaggedMethods)
    names.emplace_back(methodName(method));
  return names;
}

Status CudaDevice::forceRaggedMethod(const std::string &name) { return lanes->device().forceMethod(name); }

void CudaDevice::forceProposal(int64_t number) { lanes->device().products.propose(number); }

Status CudaDevice::describeAlgorithm(const Call &call, std::string &algorithm) {
  using operands::Matmul;
  const auto options = attributes::Matmul::of(call);
  const ProductShape shape =
      matmulShape(call.views[Matmul::a], call.views[Matmul::c], options.transposeA, options.transposeB);
  return lanes->device().products.describe(shape, algorithm);
}

CudaDevice::~CudaDevice() {
  std::lock_guard lock(Taken::get().mutex);
  Taken::get().allocated -= allocated;
}

Status CudaDevice::checkAvailable(int64_t bytes, const std::string &what) {
  int64_t available, total;
  MOERT_RETURN_IF_ERROR(askMemory(available, total));
  if (bytes <= available)
    return {};
  return Status::error(MOERT_ERROR_OUT_OF_MEMORY, what, " needs ", bytes, " bytes (", host::byteText(bytes),
                       "), of which the GPU has ", host::byteText(available), " of ", host::byteText(total),
                       " available");
}

Status CudaDevice::allocateMemory(int64_t bytes, const std::string &what, void *&data) {
  MOERT_RETURN_IF_ERROR(allocateArena(bytes, what, memory.emplace_back()));
  data = memory.back().get();
  return {};
}

Status CudaDevice::allocate(int64_t, int32_t space, int64_t bytes, const std::string &what, void *&data) {
  bytes = std::max<int64_t>(bytes, 1);
  if (space == MOERT_SPACE_HOST_PINNED) {
    MOERT_RETURN_IF_ERROR(allocatePinned(bytes, what, pinned.emplace_back()));
    data = pinned.back().get();
    return {};
  }
  MOERT_RETURN_IF_ERROR(allocateMemory(bytes, what, data));
  std::lock_guard lock(Taken::get().mutex);
  allocated += bytes;
  Taken::get().allocated += bytes;
  return {};
}

Status CudaDevice::otherBytes(int64_t &bytes) {
  int64_t available, total;
  MOERT_RETURN_IF_ERROR(askMemory(available, total));
  Taken &taken = Taken::get();
  std::lock_guard lock(taken.mutex);
  bytes = std::max<int64_t>(taken.atFirst.value_or(available) - available - taken.allocated, 0);
  return {};
}

Status CudaDevice::write(void *to, const void *from, int64_t bytes) {
  if (bytes <= 0)
    return {};
  return check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "cannot copy to the device");
}

Status CudaDevice::read(void *to, const void *from, int64_t bytes) {
  if (bytes <= 0)
    return {};
  return check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "cannot copy from the device");
}

Status CudaDevice::describe(std::string &name, int64_t &memoryBytes) {
  cudaDeviceProp properties;
  MOERT_RETURN_IF_ERROR(
      check(cudaGetDeviceProperties(&properties, lanes->device().device), "cannot read the device's properties"));
  name = properties.name;
  memoryBytes = static_cast<int64_t>(properties.totalGlobalMem);
  return {};
}

/// Bytes of pinned memory in which a call meets the host.
static int64_t stagingBytes(const Call &call) {
  switch (call.kind) {
  case Kind::Route:
    return recordingBytes(call.views[operands::Route::experts]);
  case Kind::ChooseShadows:
    return decisionBytes(call.views[operands::ChooseShadows::counts]);
  default:
    return 0;
  }
}

/// Reserves pinned memory, whose allocation would wait for all streams in a step, and makes cuDNN's graphs.
Status CudaDevice::prepare(const Call &call) {
  MOERT_RETURN_IF_ERROR(check(cudaSetDevice(lanes->device().device), "cannot use the device"));
  void *data = nullptr;
  for (Lane &lane : lanes->lanes())
    MOERT_RETURN_IF_ERROR(lane.context.staging.reserve(stagingBytes(call), data));
  if (!isCudnnFor(lanes->device()))
    return {};
  const int64_t before = lanes->device().cudnn.mostBytes();
  MOERT_RETURN_IF_ERROR(prepareAttention(lanes->target(lanes->lanes().front(), call), call));
  const int64_t bytes = lanes->device().cudnn.mostBytes();
  return bytes > before ? checkAvailable(bytes, "attention by cuDNN") : Status();
}

Status CudaDevice::checkKernel(Kind kind) const {
  if (isCollective(kind))
    return {};
  switch (kind) {
#define MOERT_CUDA_METHOD(kind, method, parameters, arguments) case Kind::kind:
#include "moert/kernels.inc"
    return {};
  default:
    return Status::error(MOERT_ERROR_UNSUPPORTED, "expected a kernel that the cuda device has but got '",
                         kindName(kind), "'; the host has all, with backend 'host' or 'mpi'");
  }
}

} // namespace moert::cuda
