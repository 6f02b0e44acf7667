//===- cuda_pipeline.h - asynchronous copies to shared memory, emulated ---===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H
#define MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H

#include <cstddef>

// A thread's copies are made when it waits for them. The last `zeros` bytes are zeros instead.
void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0);
void __pipeline_commit();
/// Waits for all but the last `prior` that were committed.
void __pipeline_wait_prior(size_t prior);

#endif // MOERT_TEST_CUDA_EMULATION_CUDA_PIPELINE_H
