//===- Context.h - state of a device and a stream for kernels -------------===//
#ifndef MOERT_CUDA_CONTEXT_H
#define MOERT_CUDA_CONTEXT_H

#include "cuda/CudnnAttention.h"
#include "cuda/Faults.h"
#include "cuda/Gemm.h"
#include "cuda/HostCounts.h"
#include "cuda/RoutingTables.h"
#include "cuda/Workspace.h"

namespace moert::cuda {

class RaggedGroups;

struct DeviceOptions {
  /// Computes f32 products in the tensor cores' 19-bit type.
  bool tf32 = false;
  /// Bytes of cuBLAS's workspace on each stream. NVIDIA advises 32 MiB on Hopper.
  int64_t productBytes = int64_t(32) << 20;
  /// File of measured choices of products (ProductTable.h), or empty.
  std::string choices;
  /// Number of multiprocessors that kernels beside a transfer leave to it, or empty for the default.
  std::string transferProcessors;
  /// "1": gradients repeat to the bit. "0" or empty: sums of some gradients have any order.
  std::string deterministic;
};

/// State that the streams of one device share.
struct DeviceContext {
  int device = 0;
  int multiProcessors = 1;
  int capability = 0; ///< compute capability, as 90 for 9.0
  Faults faults;
  Products products;
  CudnnGraphs cudnn;
  RaggedChoices choices;
  std::optional<RaggedMethod> forcedMethod; ///< method of all ragged products
  bool isDeterministic = false;             ///< whether gradients repeat to the bit
  int transferProcessors = 0;               ///< multiprocessors for a transfer beside another kernel
  std::unique_ptr<std::mutex> mutex;        ///< guards `zeros`
  std::vector<DeviceMemory> zeros;          ///< blocks of increasing size. Kernels may still read the smaller ones.
  int64_t zeroBytes = 0;

  /// Sets the method of all ragged products. Empty: each product takes the one that suits it.
  Status forceMethod(const std::string &name);
  /// Returns at least `bytes` bytes of zeros, which nothing overwrites. The first MiB exists from the start.
  Status zerosOf(int64_t bytes, const void *&data);

  /// Creates the context of the current device.
  static Status create(const DeviceOptions &options, DeviceContext &context);
};

/// State of one stream. Used by one thread at a time.
struct StreamContext {
  cudaStream_t stream = nullptr;
  Workspace workspace;
  Workspace productWorkspace; ///< used by cuBLAS alone
  Workspace forcedWorkspace;  ///< expert choices that are given to a route
  Staging staging;
  Tables operands;                 ///< addresses of grouped products
  HostCounts *counts = nullptr;    ///< the rank's counts. Null: each reader waits
  RoutingTables *tables = nullptr; ///< the rank's tables
  RaggedGroups *groups = nullptr;  ///< the rank's groups
  Stream owned;                    ///< the stream of a fork
  std::vector<std::unique_ptr<StreamContext>> forks;
  bool isCapturing = false; ///< a graph is captured: no call may wait
  bool isForGraph = false;  ///< steps become a graph: calls choose from the first step on as in a capture
  int leftProcessors = 0;   ///< multiprocessors that a product leaves to a transfer beside it

  /// Returns the i-th further stream, for parts of a call that run at the same time.
  Status forkAt(size_t i, StreamContext *&fork);

  /// Fails during the capture of a graph, where the host cannot read values of the device.
  Status checkMayWait() const;
  /// Reads counts on the host. May wait for the stream.
  Status readCounts(const View &view, HostCounts::Values &values) const;
  /// Finds the table of the key. If it is missing, make(memory) enqueues its `count` elements.
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

/// Op, stream and device of a call.
struct Target {
  DeviceContext &device;
  StreamContext &stream;
  Kind kind;
  int32_t op;

  FaultSite faults() const { return device.faults.site(kind, op); }
  /// Multiprocessors for a kernel whose blocks stay until its end. If it took all, a transfer could not begin before.
  int freeProcessors() const { return device.multiProcessors - stream.leftProcessors; }
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CONTEXT_H
