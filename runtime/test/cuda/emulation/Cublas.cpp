//===- Cublas.cpp - cuBLAS and cuBLASLt by plain loops --------------------===//

#include "Emulation.h"
#include "Multiply.h"
#include "include/cublasLt.h"
#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct cublasContext {
  cudaStream_t stream = nullptr;
};
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  int32_t processors = 0; ///< 0: all
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t stride = 0;
};
struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspaceBytes = 0;
  uint32_t alignment = 256; ///< smallest alignment of the operands
};

namespace {

/// A product. The sum is in float, or in double for double.
struct Product {
  cudaDataType_t type, resultType, scale;
  bool transposeA, transposeB;
  int64_t m, n, k, leadingA, leadingB, leadingC, leadingD;
  double alpha, beta;
};

double scalar(const void *value, cudaDataType_t type) {
  return type == CUDA_R_64F ? *static_cast<const double *>(value) : *static_cast<const float *>(value);
}

float widened(float value) { return value; }
double widened(double value) { return value; }
float widened(__half value) { return __half2float(value); }
float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T, class Sum> T narrowed(Sum value) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

/// Calls function(T{}) with the type of elements.
template <class Function> void withType(cudaDataType_t type, Function function) {
  switch (type) {
  case CUDA_R_32F:
    return function(float{});
  case CUDA_R_64F:
    return function(double{});
  case CUDA_R_16F:
    return function(__half{});
  case CUDA_R_16BF:
    return function(__nv_bfloat16{});
  }
}

template <class T, class Result> void multiply(const Product &p, const T *a, const T *b, const Result *c, Result *d) {
  using Sum = decltype(widened(T{}));
  const int64_t rowA = p.transposeA ? p.leadingA : 1, columnA = p.transposeA ? 1 : p.leadingA;
  const int64_t rowB = p.transposeB ? p.leadingB : 1, columnB = p.transposeB ? 1 : p.leadingB;
  const std::vector<Sum> sums = moert::emulation::product<Sum>(
      p.m, p.n, p.k, [=](int64_t i, int64_t l) { return widened(a[i * rowA + l * columnA]); },
      [=](int64_t l, int64_t j) { return widened(b[l * rowB + j * columnB]); });
  const Sum *from = sums.data();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      Sum sum = *from++ * static_cast<Sum>(p.alpha);
      // With beta 0 the old value is not read. It may be NaN.
      if (p.beta != 0)
        sum += static_cast<Sum>(p.beta) * static_cast<Sum>(widened(c[i + j * p.leadingC]));
      d[i + j * p.leadingD] = narrowed<Result>(sum);
    }
}

void multiplyAny(const Product &p, const void *a, const void *b, const void *c, void *d) {
  withType(p.type, [&](auto zero) {
    using T = decltype(zero);
    auto to = [&](auto result) {
      using Result = decltype(result);
      multiply(p, static_cast<const T *>(a), static_cast<const T *>(b), static_cast<const Result *>(c),
               static_cast<Result *>(d));
    };
    // Another type of result is f32.
    p.resultType == p.type ? to(zero) : to(float{});
  });
}

/// cuBLAS promises no correct results for other alignments.
template <class... Data> void checkAlignment(const Data *...data) {
  if (((reinterpret_cast<uintptr_t>(data) % 16 == 0) && ...))
    return;
  std::fprintf(stderr, "CUDA emulation: a matrix of a grouped product is not aligned to 16 bytes\n");
  std::abort();
}

/// Whether a product may have the type of result: operands of 16 bits may have a result of f32.
bool canResult(cudaDataType_t type, cudaDataType_t result) {
  return result == type || (result == CUDA_R_32F && (type == CUDA_R_16BF || type == CUDA_R_16F));
}

bool isConsistent(cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t type) {
  if (compute == CUBLAS_COMPUTE_64F)
    return type == CUDA_R_64F && scale == CUDA_R_64F;
  return type != CUDA_R_64F && scale == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || type == CUDA_R_32F);
}

template <class T> cublasStatus_t set(T &field, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

size_t sizeOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

const void *batch(const void *data, const cublasLtMatrixLayoutOpaque &layout, int32_t index) {
  return static_cast<const char *>(data) + index * layout.stride * static_cast<int64_t>(sizeOf(layout.type));
}

/// Shape of a product. `isValid` is false if the layouts do not fit each other.
Product productOf(const cublasLtMatmulDescOpaque &desc, const cublasLtMatrixLayoutOpaque &a,
                  const cublasLtMatrixLayoutOpaque &b, const cublasLtMatrixLayoutOpaque &c,
                  const cublasLtMatrixLayoutOpaque &d, bool &isValid) {
  Product p{};
  p.type = a.type;
  p.resultType = d.type;
  p.scale = desc.scale;
  p.transposeA = desc.transposeA == CUBLAS_OP_T;
  p.transposeB = desc.transposeB == CUBLAS_OP_T;
  p.m = static_cast<int64_t>(d.rows);
  p.n = static_cast<int64_t>(d.columns);
  p.k = static_cast<int64_t>(p.transposeA ? a.rows : a.columns);
  p.leadingA = a.leading;
  p.leadingB = b.leading;
  p.leadingC = c.leading;
  p.leadingD = d.leading;
  auto fits = [](const cublasLtMatrixLayoutOpaque &layout, bool transpose, int64_t rows, int64_t columns) {
    return static_cast<int64_t>(transpose ? layout.columns : layout.rows) == rows &&
           static_cast<int64_t>(transpose ? layout.rows : layout.columns) == columns &&
           layout.leading >= static_cast<int64_t>(layout.rows) && layout.leading > 0;
  };
  isValid = p.m > 0 && p.n > 0 && p.k > 0 && fits(a, p.transposeA, p.m, p.k) && fits(b, p.transposeB, p.k, p.n) &&
            fits(c, false, p.m, p.n) && fits(d, false, p.m, p.n) && b.type == p.type && c.type == p.resultType &&
            canResult(p.type, p.resultType) && a.batches == d.batches && b.batches == d.batches &&
            c.batches == d.batches && isConsistent(desc.compute, desc.scale, p.type);
  return p;
}

} // namespace

const char *cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "the operation completed successfully";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "an unsupported value or parameter was passed to the function";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "the functionality requested is not supported";
  default:
    return "an internal operation failed";
  }
}

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transposeA, cublasOperation_t transposeB, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType_t typeA, int leadingA,
                            const void *b, cudaDataType_t typeB, int leadingB, const void *beta, void *c,
                            cudaDataType_t typeC, int leadingC, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool tA = transposeA == CUBLAS_OP_T, tB = transposeB == CUBLAS_OP_T;
  const cudaDataType_t scale = typeA == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
  if (typeA != typeB || !canResult(typeA, typeC) || !isConsistent(compute, scale, typeA))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m < 0 || n < 0 || k < 0 || leadingA < std::max(1, tA ? k : m) || leadingB < std::max(1, tB ? n : k) ||
      leadingC < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  const Product p{typeA,
                  typeC,
                  scale,
                  tA,
                  tB,
                  m,
                  n,
                  k,
                  leadingA,
                  leadingB,
                  leadingC,
                  leadingC,
                  scalar(alpha, scale),
                  scalar(beta, scale)};
  return moert::emulation::enqueueWork(handle->stream, [=] { multiplyAny(p, a, b, c, c); }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transposeA,
                                          cublasOperation_t transposeB, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType_t typeA, int leadingA, long long strideA,
                                          const void *b, cudaDataType_t typeB, int leadingB, long long strideB,
                                          const void *beta, void *c, cudaDataType_t typeC, int leadingC,
                                          long long strideC, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto size = static_cast<long long>(sizeOf(typeA)), resultSize = static_cast<long long>(sizeOf(typeC));
  for (int i = 0; i < batches && status == CUBLAS_STATUS_SUCCESS; ++i)
    status =
        cublasGemmEx(handle, transposeA, transposeB, m, n, k, alpha, static_cast<const char *>(a) + i * strideA * size,
                     typeA, leadingA, static_cast<const char *>(b) + i * strideB * size, typeB, leadingB, beta,
                     static_cast<char *>(c) + i * strideC * resultSize, typeC, leadingC, compute, algorithm);
  return status;
}

/// Factors have type `Number`, in arrays with one for each group.
template <class Number>
static cublasStatus_t
multiplyGroups(cublasHandle_t handle, const cublasOperation_t transposeA[], const cublasOperation_t transposeB[],
               const int m[], const int n[], const int k[], const Number *alpha, const void *const a[],
               cudaDataType_t type, const int leadingA[], const void *const b[], const int leadingB[],
               const Number *beta, void *const c[], const int leadingC[], int groups, const int groupSize[]) {
  const cudaDataType_t scale = std::is_same_v<Number, double> ? CUDA_R_64F : CUDA_R_32F;
  std::vector<Product> products;
  for (int g = 0; g < groups; ++g) {
    const bool tA = transposeA[g] == CUBLAS_OP_T, tB = transposeB[g] == CUBLAS_OP_T;
    if (m[g] < 0 || n[g] < 0 || k[g] < 0 || leadingA[g] < std::max(1, tA ? k[g] : m[g]) ||
        leadingB[g] < std::max(1, tB ? n[g] : k[g]) || leadingC[g] < std::max(1, m[g]))
      return CUBLAS_STATUS_INVALID_VALUE;
    // Rows that are not aligned to 16 bytes are accessed wrongly.
    for (int leading : {leadingA[g], leadingB[g], leadingC[g]})
      if (static_cast<size_t>(leading) * sizeOf(type) % 16 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    const Product p{type, type,        scale,       tA,          tB,          m[g],     n[g],
                    k[g], leadingA[g], leadingB[g], leadingC[g], leadingC[g], alpha[g], beta[g]};
    products.insert(products.end(), static_cast<size_t>(groupSize[g]), p);
  }
  // The arrays of matrices are on the device, so they are read when the work runs.
  auto run = [=] {
    for (size_t i = 0; i < products.size(); ++i) {
      checkAlignment(a[i], b[i], c[i]);
      multiplyAny(products[i], a[i], b[i], c[i], c[i]);
    }
  };
  return moert::emulation::enqueueWork(handle->stream, run) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                           : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transposeA[],
                                          const cublasOperation_t transposeB[], const int m[], const int n[],
                                          const int k[], const void *alpha, const void *const a[], cudaDataType_t typeA,
                                          const int leadingA[], const void *const b[], cudaDataType_t typeB,
                                          const int leadingB[], const void *beta, void *const c[], cudaDataType_t typeC,
                                          const int leadingC[], int groups, const int groupSize[],
                                          cublasComputeType_t compute) {
  if (typeA == CUDA_R_64F || typeA != typeB || typeA != typeC || !isConsistent(compute, CUDA_R_32F, typeA))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return multiplyGroups(handle, transposeA, transposeB, m, n, k, static_cast<const float *>(alpha), a, typeA, leadingA,
                        b, leadingB, static_cast<const float *>(beta), c, leadingC, groups, groupSize);
}

cublasStatus_t cublasDgemmGroupedBatched(cublasHandle_t handle, const cublasOperation_t transposeA[],
                                         const cublasOperation_t transposeB[], const int m[], const int n[],
                                         const int k[], const double alpha[], const double *const a[],
                                         const int leadingA[], const double *const b[], const int leadingB[],
                                         const double beta[], double *const c[], const int leadingC[], int groups,
                                         const int groupSize[]) {
  return multiplyGroups(handle, transposeA, transposeB, m, n, k, alpha, reinterpret_cast<const void *const *>(a),
                        CUDA_R_64F, leadingA, reinterpret_cast<const void *const *>(b), leadingB, beta,
                        reinterpret_cast<void *const *>(const_cast<double **>(c)), leadingC, groups, groupSize);
}

static std::atomic<int> lastAlgorithm = 0, lastProcessors = 0;
int moert::emulation::lastLtAlgorithm() { return lastAlgorithm; }
int moert::emulation::lastLtProcessors() { return lastProcessors; }

static bool isAlgorithm(const cublasLtMatmulAlgo_t &algo) {
  return algo.data[0] >= 1 && algo.data[0] <= moert::emulation::kLtAlgorithms;
}

size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(desc->transposeA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(desc->transposeB, value, bytes);
  case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    return set(desc->processors, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = new cublasLtMatrixLayoutOpaque{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(layout->batches, value, bytes);
  return set(layout->stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(preference->workspaceBytes, value, bytes);
  if (bytes != sizeof(uint32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    preference->alignment = std::min(preference->alignment, *static_cast<const uint32_t *>(value));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int requested, cublasLtMatmulHeuristicResult_t results[], int *count) {
  *count = 0;
  bool isValid = false;
  productOf(*desc, *a, *b, *c, *d, isValid);
  // No algorithm loads single elements of 16 bits.
  if (!isValid || requested < 1 || preference->alignment < 4)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(requested, moert::emulation::kLtAlgorithms);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i) + 1;
    results[i].workspaceSize = preference->workspaceBytes;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Each algorithm needs a workspace of its number times 256 bytes.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
  bool isValid = false;
  productOf(*desc, *a, *b, *c, *d, isValid);
  if (!isValid || !isAlgorithm(*algo))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = 256 * algo->data[0];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layoutC, void *d,
                              cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  bool isValid = false;
  Product p = productOf(*desc, *layoutA, *layoutB, *layoutC, *layoutD, isValid);
  if (!isValid || !isAlgorithm(*algo) || (workspaceBytes > 0 && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  lastAlgorithm = static_cast<int>(algo->data[0]);
  lastProcessors = desc->processors;
  p.alpha = scalar(alpha, p.scale);
  p.beta = scalar(beta, p.scale);
  auto run = [=, layoutA = *layoutA, layoutB = *layoutB, layoutC = *layoutC, layoutD = *layoutD] {
    // Garbage shows up in calls that use the workspace without a wait.
    if (workspace)
      std::memset(workspace, 0xff, workspaceBytes);
    for (int32_t i = 0; i < layoutD.batches; ++i)
      multiplyAny(p, batch(a, layoutA, i), batch(b, layoutB, i), batch(c, layoutC, i),
                  const_cast<void *>(batch(d, layoutD, i)));
  };
  return moert::emulation::enqueueWork(stream, run) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
