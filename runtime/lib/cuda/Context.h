//===- Context.h - what kernels need of a device and of a stream ----------===//
#ifndef MOERT_CUDA_CONTEXT_H
#define MOERT_CUDA_CONTEXT_H

#include "cuda/CudnnAttention.h"
#include "cuda/Faults.h"
#include "cuda/Gemm.h"
#include "cuda/HostCounts.h"
#include "cuda/ProductTable.h"
#include "cuda/RoutingTables.h"
#include "cuda/Workspace.h"

namespace moert::cuda {

class RaggedGroups;

struct DeviceOptions {
  /// f32 products by the tensor cores' 19-bit type.
  bool tf32 = false;
  /// For cuBLAS, of each stream; NVIDIA advises 32 MiB on Hopper.
  int64_t productBytes = int64_t(32) << 20;
  /// A file of measured choices of products (ProductTable.h); empty: none.
  std::string choices;
  /// Which of cuBLASLt's proposals dense products take, from 1. 0: what was measured, or the first one.
  int64_t denseProposal = 0;
  /// The method of all ragged products; empty: what suits each.
  std::string raggedMethod;
};

/// What the streams of one device share.
struct DeviceContext {
  int device = 0;
  int multiProcessors = 1;
  int capability = 0; ///< its compute capability, as 90 for 9.0
  Faults faults;
  Products products;
  CudnnGraphs cudnn;
  RaggedChoices choices;
  std::optional<RaggedMethod> forcedMethod; ///< of all ragged products
  std::unique_ptr<std::mutex> mutex;        ///< of zeros
  std::vector<DeviceMemory> zeros;          ///< each larger than the one before, which kernels may read still
  int64_t zeroBytes = 0;

  /// At least so many bytes of zeros, which nobody writes.
  Status zerosOf(int64_t bytes, const void *&data);

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
  Tables operands;                 ///< addresses, of grouped products
  HostCounts *counts = nullptr;    ///< of the rank; null: each reader waits
  RoutingTables *tables = nullptr; ///< of the rank
  RaggedGroups *groups = nullptr;  ///< likewise
  Stream owned;                    ///< of a fork
  std::vector<std::unique_ptr<StreamContext>> forks;
  bool isCapturing = false; ///< what is enqueued becomes a graph: nothing may wait for it, or allocate

  /// The i-th further stream, for parts of a call that run beside each other.
  Status forkAt(size_t i, StreamContext *&fork);

  /// The host must read what is on the device: not in a graph.
  Status checkMayWait() const;
  /// Counts on the host; the stream may have to be waited for.
  Status readCounts(const View &view, HostCounts::Values &values) const;
  /// The table of that key: `count` elements, which make(memory) enqueues where the table is not there yet.
  template <class T, class Make>
  Status tableOf(const RoutingTables::Key &key, int64_t count, const T *&data, Make make) const {
    const void *known = nullptr;
    MOERT_RETURN_IF_ERROR(tables->find(stream, key, known));
    data = static_cast<const T *>(known);
    if (known)
      return {};
    RoutingTables::Block *block = nullptr;
    MOERT_RETURN_IF_ERROR(tables->reserve(stream, count * static_cast<int64_t>(sizeof(T)), block));
    auto *made = static_cast<T *>(block->memory.get());
    MOERT_RETURN_IF_ERROR(make(made));
    data = made;
    return tables->publish(stream, key, block);
  }
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
