//===- Grid.h - running the blocks of a kernel ----------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_GRID_H
#define MOERT_TEST_CUDA_EMULATION_GRID_H

#include "include/cuda_runtime.h"

#include <random>

namespace moert::emulation {

/// Threads of a kernel, and the work of each.
struct Grid {
  dim3 blocks, threads;
  size_t sharedBytes = 0;
  std::function<void()> body;
};

/// Runs all blocks one after the other. `random` chooses the order of blocks and threads. Only one thread at a time may
/// call it.
void runGrid(const Grid &grid, std::mt19937_64 &random);

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_GRID_H
