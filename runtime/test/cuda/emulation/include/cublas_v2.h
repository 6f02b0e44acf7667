//===- cublas_v2.h - cuBLAS, emulated -------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUBLAS_V2_H
#define MOERT_TEST_CUDA_EMULATION_CUBLAS_V2_H

#include "cuda_runtime.h"
#include "library_types.h"

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  CUBLAS_COMPUTE_64F = 70
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef struct cublasContext *cublasHandle_t;

const char *cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);

/// Column-major. alpha and beta are in the host's memory.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transposeA, cublasOperation_t transposeB, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType_t typeA, int leadingA,
                            const void *b, cudaDataType_t typeB, int leadingB, const void *beta, void *c,
                            cudaDataType_t typeC, int leadingC, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm);
/// Computes `batches` products, whose matrices follow each other at the given distances.
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transposeA,
                                          cublasOperation_t transposeB, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType_t typeA, int leadingA, long long strideA,
                                          const void *b, cudaDataType_t typeB, int leadingB, long long strideB,
                                          const void *beta, void *c, cudaDataType_t typeC, int leadingC,
                                          long long strideC, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm);
/// Column-major. Group g has groupSize[g] products of one shape. The three arrays list their matrices, group by group.
/// These arrays are in the device's memory, all others in the host's.
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transposeA[],
                                          const cublasOperation_t transposeB[], const int m[], const int n[],
                                          const int k[], const void *alpha, const void *const a[], cudaDataType_t typeA,
                                          const int leadingA[], const void *const b[], cudaDataType_t typeB,
                                          const int leadingB[], const void *beta, void *const c[], cudaDataType_t typeC,
                                          const int leadingC[], int groups, const int groupSize[],
                                          cublasComputeType_t compute);
cublasStatus_t cublasDgemmGroupedBatched(cublasHandle_t handle, const cublasOperation_t transposeA[],
                                         const cublasOperation_t transposeB[], const int m[], const int n[],
                                         const int k[], const double alpha[], const double *const a[],
                                         const int leadingA[], const double *const b[], const int leadingB[],
                                         const double beta[], double *const c[], const int leadingC[], int groups,
                                         const int groupSize[]);

#endif // MOERT_TEST_CUDA_EMULATION_CUBLAS_V2_H
