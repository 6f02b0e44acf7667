//===- KernelsGemm.cpp - dense and grouped matrix products -----------------===//
//
// f32 products are oneDNN's sgemm and f64 products OpenBLAS's dgemm, both single threaded, because the executor runs
// many kernels at once. No library has products of Fields.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

#include <cblas.h>
#include <dnnl.h>
#include <mutex>

// Declares a function of oneDNN's OpenMP runtime, because clang comes without <omp.h>.
extern "C" void omp_set_num_threads(int);
// Keeps threaded builds of OpenBLAS single threaded. Other libraries do not have the function.
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

/// Returns the shape with its leading dimensions.
GemmShape withLeading(GemmShape shape) {
  auto set = [](int64_t &leading, int64_t columns) { leading = leading ? leading : columns; };
  set(shape.leadingA, shape.transposeA ? shape.m : shape.k);
  set(shape.leadingB, shape.transposeB ? shape.k : shape.n);
  set(shape.leadingC, shape.n);
  return shape;
}

Status multiply(const GemmShape &s, const float *a, const float *b, float *c) {
  dnnl_status_t status =
      dnnl_sgemm(s.transposeA ? 'T' : 'N', s.transposeB ? 'T' : 'N', s.m, s.n, s.k, static_cast<float>(s.alpha), a,
                 s.leadingA, b, s.leadingB, s.accumulate ? 1.0f : 0.0f, c, s.leadingC);
  if (status == dnnl_success)
    return {};
  return Status::error(MOERT_ERROR_INTERNAL, joined("dnnl_sgemm failed with status ", int(status)));
}

Status multiply(const GemmShape &s, const double *a, const double *b, double *c) {
  if (std::max({s.m, s.n, s.k, s.leadingA, s.leadingB, s.leadingC}) > std::numeric_limits<blasint>::max())
    return Status::error(MOERT_ERROR_UNSUPPORTED, "a dimension of an f64 matrix product exceeds 2^31 - 1");
  // OpenBLAS built without threads shares its packing buffers between callers without a lock, and concurrent calls give
  // wrong results. The system chooses the build, so only one thread at a time calls such a build.
  static const bool unsafe = openblas_get_parallel && openblas_get_parallel() == 0;
  static std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
  if (unsafe)
    lock.lock();
  cblas_dgemm(CblasRowMajor, s.transposeA ? CblasTrans : CblasNoTrans, s.transposeB ? CblasTrans : CblasNoTrans, s.m,
              s.n, s.k, s.alpha, a, s.leadingA, b, s.leadingB, s.accumulate ? 1.0 : 0.0, c, s.leadingC);
  return {};
}

Status multiply(const GemmShape &s, const Field *a, const Field *b, Field *c) {
  const Field alpha = s.alpha;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      const Field sum = Field::dot(s.transposeA ? a + i : a + i * s.leadingA, s.transposeA ? s.leadingA : 1,
                                   s.transposeB ? b + j * s.leadingB : b + j, s.transposeB ? 1 : s.leadingB, s.k);
      Field &to = c[i * s.leadingC + j];
      to = s.accumulate ? to + alpha * sum : alpha * sum;
    }
  return {};
}

/// Handles empty sizes, some of which the libraries refuse or ignore.
template <class T> Status anyProduct(const GemmShape &given, const T *a, const T *b, T *c) {
  const GemmShape shape = withLeading(given);
  if (shape.m == 0 || shape.n == 0)
    return {};
  if (shape.k > 0)
    return multiply(shape, a, b, c);
  for (int64_t i = 0; !shape.accumulate && i < shape.m; ++i)
    std::fill_n(c + i * shape.leadingC, shape.n, T(0));
  return {};
}

/// Rows [first, first + count) of an expert in a buffer of rows.
struct RowRange {
  int64_t first, count;
};

/// Places of the rows of each expert.
class ExpertRows : public ExpertShape {
public:
  ExpertRows(Checker &check, View rows, View counts) : ExpertShape(rows, counts) {
    if (isRagged)
      offsets = readCounts(check, counts, capacity);
  }
  RowRange range(int64_t expert) const {
    if (isRagged)
      return {offsets[expert], offsets[expert + 1] - offsets[expert]};
    return {expert * capacity, capacity};
  }

private:
  std::vector<int64_t> offsets;
};

} // namespace

Status gemm(const GemmShape &shape, const float *a, const float *b, float *c) { return anyProduct(shape, a, b, c); }
Status gemm(const GemmShape &shape, const double *a, const double *b, double *c) { return anyProduct(shape, a, b, c); }
Status gemm(const GemmShape &shape, const Field *a, const Field *b, Field *c) { return anyProduct(shape, a, b, c); }

void matmul(Checker &check, View a, View b, View c, bool transposeA, bool transposeB) {
  const int64_t m = c.dims[0], n = c.dims[1], k = a.dims[transposeA ? 0 : 1];
  check.also(withFloating(
      a.dtype, [&]<class T>(T) { return gemm({m, n, k, transposeA, transposeB}, a.as<T>(), b.as<T>(), c.as<T>()); }));
}

/// Copies the addend of a product to its output, if there is one.
static void copyAddend(View addend, View out) {
  if (addend && addend.data != out.data)
    std::memmove(out.data, addend.data, out.bytes());
}

void matmulWgrad(Checker &check, View rows, View grads, View addend, View out) {
  copyAddend(addend, out);
  check.also(withFloating(rows.dtype, [&]<class T>(T) {
    return gemm({out.dims[0], out.dims[1], rows.dims[0], true, false, bool(addend)}, rows.as<T>(), grads.as<T>(),
                out.as<T>());
  }));
}

void groupedMatmul(Checker &check, View rows, View weights, View counts, View out, bool transposeWeights) {
  const ExpertRows experts(check, rows, counts);
  const int64_t k = experts.columns, n = columnsOf(out);
  if (!check.ok())
    return;
  check.also(withFloating(rows.dtype, [&]<class T>(T) -> Status {
    for (int64_t e = 0; e < experts.experts; ++e) {
      auto [first, count] = experts.range(e);
      MOERT_RETURN_IF_ERROR(gemm({count, n, k, false, transposeWeights}, rows.as<T>() + first * k,
                                 weights.as<T>() + e * k * n, out.as<T>() + first * n));
    }
    return {};
  }));
}

void groupedMatmulWgrad(Checker &check, View rows, View grads, View counts, View addend, View out) {
  const ExpertRows experts(check, rows, counts);
  const int64_t k = experts.columns, n = columnsOf(grads);
  if (!check.ok())
    return;
  copyAddend(addend, out);
  check.also(withFloating(rows.dtype, [&]<class T>(T) -> Status {
    for (int64_t e = 0; e < experts.experts; ++e) {
      auto [first, count] = experts.range(e);
      MOERT_RETURN_IF_ERROR(gemm({k, n, count, true, false, bool(addend)}, rows.as<T>() + first * k,
                                 grads.as<T>() + first * n, out.as<T>() + e * k * n));
    }
    return {};
  }));
}

} // namespace moert::host
