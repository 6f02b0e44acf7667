//===- cuda_pipeline.h - asynchronous copies to shared memory, emulated ---===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H
#define MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H

#include <cstddef>

// Copies `bytes` bytes, the last `zeros` of which are zeros instead. A thread's copies are made when it waits for them.
void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0);
void __pipeline_commit();
/// Waits for all committed copies but the last `prior`.
void __pipeline_wait_prior(size_t prior);

#endif // MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H
