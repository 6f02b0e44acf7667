//===- Inline.h - functions that are a part of every caller ---------------===//
#ifndef MOERT_CORE_INLINE_H
#define MOERT_CORE_INLINE_H

/// What a vectorised loop calls. Attention's loops are compiled for several instruction sets: a function of its own
/// would be compiled for the least of them. Kernels of CUDA may call it too.
#ifdef __CUDACC__
#define MOERT_INLINE __host__ __device__ __forceinline__
#else
#define MOERT_INLINE __attribute__((always_inline)) inline
#endif

#endif // MOERT_CORE_INLINE_H
