//===- Context.cpp - what kernels need of a device ------------------------===//

#include "cuda/Context.h"

namespace moert::cuda {

Status DeviceContext::create(const DeviceOptions &options, DeviceContext &context) {
  MOERT_RETURN_IF_ERROR(check(cudaGetDevice(&context.device), "cannot use a CUDA device"));
  MOERT_RETURN_IF_ERROR(
      check(cudaDeviceGetAttribute(&context.multiProcessors, cudaDevAttrMultiProcessorCount, context.device),
            "cannot ask the device for its properties"));
  MOERT_RETURN_IF_ERROR(Faults::create(context.faults));
  return Products::create(options.tf32, options.productBytes, context.products);
}

Status StreamContext::checkMayWait() const {
  if (!isCapturing)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED, "the host must read values, which a graph cannot wait for");
}

Status StreamContext::readCounts(const View &view, HostCounts::Values &values) const {
  MOERT_RETURN_IF_ERROR(checkMayWait());
  HostCounts none;
  return (counts ? *counts : none).read(stream, view, values);
}

} // namespace moert::cuda
