//===- Context.h - what kernels need of a device and of a stream ----------===//
#ifndef MOERT_CUDA_CONTEXT_H
#define MOERT_CUDA_CONTEXT_H

#include "cuda/Faults.h"
#include "cuda/Gemm.h"
#include "cuda/HostCounts.h"
#include "cuda/Workspace.h"

namespace moert::cuda {

struct DeviceOptions {
  /// f32 products by the tensor cores' 19-bit type.
  bool tf32 = false;
  /// For cuBLAS, of each stream; NVIDIA advises 32 MiB on Hopper.
  int64_t productBytes = int64_t(32) << 20;
};

/// What the streams of one device share.
struct DeviceContext {
  int device = 0;
  int multiProcessors = 1;
  Faults faults;
  Products products;

  /// For the current device.
  static Status create(const DeviceOptions &options, DeviceContext &context);
};

/// Used by one thread at a time.
struct StreamContext {
  cudaStream_t stream = nullptr;
  Workspace workspace;
  Workspace productWorkspace; ///< of cuBLAS alone
  Workspace forcedWorkspace;  ///< of choices that a route is told
  Staging staging;
  Tables operands;              ///< addresses, of grouped products
  HostCounts *counts = nullptr; ///< of the rank; null: each reader waits
  bool isCapturing = false;     ///< what is enqueued becomes a graph: nothing may wait for it, or allocate

  /// The host must read what is on the device: not in a graph.
  Status checkMayWait() const;
  /// Counts on the host; the stream may have to be waited for.
  Status readCounts(const View &view, HostCounts::Values &values) const;
};

/// Where one call runs.
struct Target {
  DeviceContext &device;
  StreamContext &stream;
  Kind kind;
  int32_t op;

  FaultSite faults() const { return device.faults.site(kind, op); }
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CONTEXT_H
