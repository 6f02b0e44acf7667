//===- Emulation.h - what tests may ask of the emulated devices -----------===//
#ifndef MOERT_TEST_CUDA_EMULATION_EMULATION_H
#define MOERT_TEST_CUDA_EMULATION_EMULATION_H

#include <cstddef>
#include <cstdint>

struct ncclComm;

namespace moert::emulation {

/// Another order of blocks, threads and streams. At first CUDA_EMULATION_SEED of the environment, or 1.
void setSeed(uint64_t seed);
/// How many devices there are, at first CUDA_EMULATION_DEVICES of the environment, or 2; and the memory of each. A
/// process sees those that CUDA_VISIBLE_DEVICES lists by number.
void setDevices(int count, size_t bytes);
/// The next call that can fail does, with this cudaError_t.
void failNext(int error);
/// Bytes of cudaMalloc and of cudaMallocHost that are not freed.
size_t allocatedBytes();
/// How many graphs of cuDNN ran; whether it refuses all further shapes; and the workspace of all further graphs.
int64_t cudnnRuns();
void setCudnnRefuses(bool refuses);
void setCudnnBytes(int64_t bytes);
/// How many algorithms cuBLASLt has, which are numbers from 1 on, and the one of its last product; all compute alike.
constexpr int kLtAlgorithms = 3;
int lastLtAlgorithm();
/// How many of NCCL's communicators there are, and how many there ever were.
int64_t communicators();
int64_t communicatorsMade();
/// NCCL finds an error in the background.
void failCommunicator(ncclComm *comm);

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_EMULATION_H
