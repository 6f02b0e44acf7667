//===- KernelsGemm.cpp - dense and grouped matrix products -----------------===//
//
// f32 is oneDNN's sgemm and f64 OpenBLAS's dgemm, each single threaded: the executor runs many kernels at once.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cblas.h>
#include <cstring>
#include <dnnl.h>
#include <mutex>

// Of whichever OpenMP runtime oneDNN uses; clang comes without <omp.h>.
extern "C" void omp_set_num_threads(int);
// Threaded builds of OpenBLAS must be told to stay single threaded; another CBLAS does not have the function.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));
extern "C" int openblas_get_parallel() __attribute__((weak));

namespace moert::host {

void initialiseThread() {
  omp_set_num_threads(1);
  static std::once_flag once;
  std::call_once(once, [] {
    if (openblas_set_num_threads)
      openblas_set_num_threads(1);
  });
}

namespace {

/// The sizes of c [m,n] = op(a) op(b), with op(a) [m,k], op(b) [k,n]; with `accumulate` that is added to c.
struct GemmShape {
  int64_t m, n, k;
  bool transposeA, transposeB;
  bool accumulate = false;
};

Status gemm(const GemmShape &shape, const float *a, const float *b, float *c) {
  const auto [m, n, k, transposeA, transposeB, accumulate] = shape;
  dnnl_status_t status = dnnl_sgemm(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k, 1.0f, a,
                                    transposeA ? m : k, b, transposeB ? k : n, accumulate ? 1.0f : 0.0f, c, n);
  if (status == dnnl_success)
    return {};
  return Status::error(MOERT_ERROR_INTERNAL, joined("dnnl_sgemm failed with status ", int(status)));
}

Status gemm(const GemmShape &shape, const double *a, const double *b, double *c) {
  const auto [m, n, k, transposeA, transposeB, accumulate] = shape;
  if (std::max({m, n, k}) > std::numeric_limits<blasint>::max())
    return Status::error(MOERT_ERROR_UNSUPPORTED, "a dimension of an f64 matrix product exceeds 2^31 - 1");
  // OpenBLAS built without threads shares its packing buffers between callers without a lock: concurrent calls give
  // wrong results. Which build is loaded is the system's choice, so such a one is called by one thread at a time.
  static const bool unsafe = openblas_get_parallel && openblas_get_parallel() == 0;
  static std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
  if (unsafe)
    lock.lock();
  cblas_dgemm(CblasRowMajor, transposeA ? CblasTrans : CblasNoTrans, transposeB ? CblasTrans : CblasNoTrans, m, n, k,
              1.0, a, transposeA ? m : k, b, transposeB ? k : n, accumulate ? 1.0 : 0.0, c, n);
  return {};
}

/// The product, or c plus it, for any sizes; the libraries refuse or ignore some of the empty ones.
template <class T> Status product(const GemmShape &shape, const T *a, const T *b, T *c) {
  if (shape.m == 0 || shape.n == 0)
    return {};
  if (shape.k == 0) {
    if (!shape.accumulate)
      std::fill_n(c, shape.m * shape.n, T(0));
    return {};
  }
  return gemm(shape, a, b, c);
}

/// Rows [first, first + count) of an expert in a buffer of rows.
struct RowRange {
  int64_t first, count;
};

/// The rows of each expert: from `counts`, or equal parts of the capacity form.
class ExpertRows {
public:
  ExpertRows(Checker &check, View rows, View counts) : counts(counts) {
    check.floating("rows", rows);
    if (counts) {
      check.rank("rows", rows, 2, 2);
      offsets = readCounts(check, counts, rows.dims[0]);
    } else {
      check.rank("rows", rows, 3, 3);
    }
    experts = counts ? counts.dims[1] : rows.dims[0];
    capacity = counts ? rows.dims[0] : rows.dims[1];
    columns = counts ? rows.dims[1] : rows.dims[2];
  }
  RowRange range(int64_t expert) const {
    if (counts)
      return {offsets[expert], offsets[expert + 1] - offsets[expert]};
    return {expert * capacity, capacity};
  }
  /// Checks `view` to be rows of `width` columns for the same experts.
  void checkAlike(Checker &check, const char *name, View view, int32_t dtype, int64_t width) const {
    if (counts)
      check.shape(name, view, dtype, {capacity, width});
    else
      check.shape(name, view, dtype, {experts, capacity, width});
  }

  View counts;
  std::vector<int64_t> offsets;
  int64_t experts, capacity, columns;
};

} // namespace

Status matmul(View a, View b, View c, bool transposeA, bool transposeB) {
  Checker check("matmul");
  check.floating("a", a).rank("a", a, 2, 2).floating("b", b).rank("b", b, 2, 2);
  const int64_t m = a.dims[transposeA ? 1 : 0], k = a.dims[transposeA ? 0 : 1], n = b.dims[transposeB ? 0 : 1];
  if (transposeB)
    check.shape("b", b, a.dtype, {n, k});
  else
    check.shape("b", b, a.dtype, {k, n});
  check.shape("c", c, a.dtype, {m, n});
  if (!check.ok())
    return check.take();
  return withFloating(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    return product<T>({m, n, k, transposeA, transposeB}, a.as<T>(), b.as<T>(), c.as<T>());
  });
}

Status groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) {
  Checker check("grouped_matmul");
  ExpertRows experts(check, rows, counts);
  check.rank("weights", weights, 3, 3);
  const int64_t k = experts.columns, n = weights.dims[transposeWeights ? 1 : 2];
  if (transposeWeights)
    check.shape("weights", weights, rows.dtype, {experts.experts, n, k});
  else
    check.shape("weights", weights, rows.dtype, {experts.experts, k, n});
  experts.checkAlike(check, "out", out, rows.dtype, n);
  if (!check.ok())
    return check.take();
  return withFloating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t e = 0; e < experts.experts; ++e) {
      auto [first, count] = experts.range(e);
      Status status = product<T>({count, n, k, false, transposeWeights}, rows.as<T>() + first * k,
                                 weights.as<T>() + e * k * n, out.as<T>() + first * n);
      if (!status.ok())
        return status;
    }
    return Status();
  });
}

Status groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) {
  Checker check("grouped_matmul_wgrad");
  ExpertRows experts(check, rows, counts);
  const int64_t k = experts.columns, n = columnsOf(grads);
  experts.checkAlike(check, "grads", grads, rows.dtype, n);
  check.shape("out", out, rows.dtype, {experts.experts, k, n});
  if (addend)
    check.like("addend", addend, out);
  if (!check.ok())
    return check.take();
  if (addend && addend.data != out.data)
    std::memmove(out.data, addend.data, out.bytes());
  return withFloating(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t e = 0; e < experts.experts; ++e) {
      auto [first, count] = experts.range(e);
      Status status = product<T>({k, n, count, true, false, bool(addend)}, rows.as<T>() + first * k,
                                 grads.as<T>() + first * n, out.as<T>() + e * k * n);
      if (!status.ok())
        return status;
    }
    return Status();
  });
}

} // namespace moert::host
