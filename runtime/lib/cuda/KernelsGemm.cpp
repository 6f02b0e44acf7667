//===- KernelsGemm.cpp - dense and grouped matrix products ----------------===//

#include "cuda/CudaKernels.h"
#include "cuda/RaggedProducts.h"

namespace moert::cuda {

/// Whether 16-bit rows have a sum of f32.
static bool isWide(View rows, View sum) { return rows.dtype != sum.dtype; }

ProductShape matmulShape(View a, View c, bool transposeA, bool transposeB) {
  return {a.dtype, c.dims[0], c.dims[1], a.dims[transposeA ? 0 : 1], transposeA, transposeB};
}

Status CudaKernels::runMatmul(View a, View b, View c, bool transposeA, bool transposeB) {
  return target.device.products.multiply(target.stream, matmulShape(a, c, transposeA, transposeB), a.data, b.data,
                                         c.data);
}

Status CudaKernels::runMatmulWgrad(View rows, View grads, View addend, View out) {
  if (addend)
    MOERT_RETURN_IF_ERROR(copy(addend, out));
  const ProductShape shape{rows.dtype, out.dims[0],  out.dims[1], rows.dims[0],     true,
                           false,      bool(addend), 1,           isWide(rows, out)};
  return target.device.products.multiply(target.stream, shape, rows.data, grads.data, out.data);
}

Status CudaKernels::runGroupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) {
  const int64_t experts = weights.dims[0], n = weights.dims[transposeWeights ? 1 : 2];
  const int64_t k = weights.dims[transposeWeights ? 2 : 1];
  if (!counts) {
    const ProductShape shape{rows.dtype, rows.dims[1], n, k, false, transposeWeights, false, experts};
    return target.device.products.multiply(target.stream, shape, rows.data, weights.data, out.data);
  }
  const RaggedProduct product{
      RaggedProduct::Pass::Forward, rows.dtype,       experts,   rows.dims[0], n,       k, transposeWeights,
      /*accumulate=*/false,         /*isWide=*/false, rows.data, weights.data, out.data};
  return multiplyRagged(target, product, counts);
}

Status CudaKernels::runGroupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) {
  const int64_t experts = out.dims[0], k = out.dims[1], n = out.dims[2];
  if (addend)
    MOERT_RETURN_IF_ERROR(copy(addend, out));
  if (!counts) {
    const ProductShape shape{rows.dtype, k, n, rows.dims[1], true, false, bool(addend), experts, isWide(rows, out)};
    return target.device.products.multiply(target.stream, shape, rows.data, grads.data, out.data);
  }
  RaggedProduct product{RaggedProduct::Pass::WeightGradient, rows.dtype, experts, rows.dims[0], n, k};
  product.accumulate = bool(addend);
  product.isWide = isWide(rows, out);
  product.a = rows.data;
  product.b = grads.data;
  product.c = out.data;
  return multiplyRagged(target, product, counts);
}

} // namespace moert::cuda
