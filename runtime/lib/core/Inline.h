//===- Inline.h - functions that are a part of every caller ---------------===//
#ifndef MOERT_CORE_INLINE_H
#define MOERT_CORE_INLINE_H

/// Marks functions that vectorised loops call. Attention's loops are compiled for several instruction sets, and a
/// separate function would be compiled for the least of them. Kernels of CUDA may call these functions too.
#ifdef __CUDACC__
#define MOERT_INLINE __host__ __device__ __forceinline__
#else
#define MOERT_INLINE __attribute__((always_inline)) inline
#endif

#endif // MOERT_CORE_INLINE_H
