//===- Gemm.h - one matrix product -----------------------------------------===//
#ifndef MOERT_HOST_GEMM_H
#define MOERT_HOST_GEMM_H

#include "core/Field.h"
#include "core/View.h"

namespace moert::host {

/// c [m,n] = alpha op(a) op(b), with op(a) [m,k], op(b) [k,n]; `accumulate` adds it to c. A leading dimension is the
/// distance of two rows of the stored matrix, 0 if they follow each other. Any size may be 0.
struct GemmShape {
  int64_t m, n, k;
  bool transposeA, transposeB;
  bool accumulate = false;
  double alpha = 1.0;
  int64_t leadingA = 0, leadingB = 0, leadingC = 0;
};

Status gemm(const GemmShape &shape, const float *a, const float *b, float *c);
Status gemm(const GemmShape &shape, const double *a, const double *b, double *c);
Status gemm(const GemmShape &shape, const Field *a, const Field *b, Field *c);

} // namespace moert::host

#endif // MOERT_HOST_GEMM_H
