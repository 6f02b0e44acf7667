//===- Emulation.h - the tests' control of emulated devices ---------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_EMULATION_H
#define MOERT_TEST_CUDA_EMULATION_EMULATION_H

#include <cstddef>
#include <cstdint>

struct ncclComm;

namespace moert::emulation {

/// Selects another order of blocks, threads and streams. The initial seed is CUDA_EMULATION_SEED of the environment, or
/// 1.
void setSeed(uint64_t seed);
/// Sets the number of devices, initially CUDA_EMULATION_DEVICES of the environment or 2, and the memory of each. A
/// process sees those that CUDA_VISIBLE_DEVICES lists by number.
void setDevices(int count, size_t bytes);
/// Makes the next call that can fail return this cudaError_t.
void failNext(int error);
/// Bytes of cudaMalloc and of cudaMallocHost that are not freed.
size_t allocatedBytes();
/// Bytes of cudaMallocHost that are not freed.
size_t pinnedBytes();
/// Bytes that the current device's memory pool keeps when they are freed.
uint64_t keptBytes();
/// Number of graphs of cuDNN that ran, whether cuDNN refuses all further shapes, and the workspace of all further
/// graphs.
int64_t cudnnRuns();
void setCudnnRefuses(bool refuses);
void setCudnnBytes(int64_t bytes);
/// Multiprocessors that the last grouped kernel of CUTLASS was launched for.
int lastGroupedProcessors();
/// Number of cuBLASLt's algorithms, which are numbered from 1 on and compute alike. The algorithm of its last product,
/// and the multiprocessors that it was planned for, or 0.
constexpr int kLtAlgorithms = 3;
int lastLtAlgorithm();
int lastLtProcessors();
/// Number of NCCL's current communicators, and of all that were ever made.
int64_t communicators();
int64_t communicatorsMade();
/// Makes NCCL find an error in the background.
void failCommunicator(ncclComm *comm);
/// Makes transfers of a communicator return before they are enqueued.
void setNonblocking(ncclComm *comm);

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_EMULATION_H
