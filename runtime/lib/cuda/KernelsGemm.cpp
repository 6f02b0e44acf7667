//===- KernelsGemm.cpp - dense and grouped matrix products ----------------===//

#include "core/Checks.h"
#include "cuda/CudaKernels.h"
#include "cuda/Ragged.cuh"

namespace moert::cuda {

static char *rowsFrom(View view, int64_t row, int64_t columns) {
  return view.as<char>() + row * columns * static_cast<int64_t>(dtypeSize(view.dtype));
}

Status CudaKernels::matmul(View a, View b, View c, bool transposeA, bool transposeB) {
  MOERT_RETURN_IF_ERROR(checkMatmul(a, b, c, transposeA, transposeB));
  const ProductShape shape{a.dtype, c.dims[0], c.dims[1], a.dims[transposeA ? 0 : 1], transposeA, transposeB};
  return target.device.products.multiply(target.stream, shape, a.data, b.data, c.data);
}

Status CudaKernels::groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) {
  MOERT_RETURN_IF_ERROR(checkGroupedMatmul(rows, weights, counts, out, transposeWeights));
  const int64_t experts = weights.dims[0], n = weights.dims[transposeWeights ? 1 : 2];
  const int64_t k = weights.dims[transposeWeights ? 2 : 1];
  ProductShape shape{rows.dtype, 0, n, k, false, transposeWeights};
  if (!counts) {
    shape.m = rows.dims[1];
    shape.batches = experts;
    return target.device.products.multiply(target.stream, shape, rows.data, weights.data, out.data);
  }
  std::vector<int64_t> offsets;
  MOERT_RETURN_IF_ERROR(readExpertOffsets(target, counts, rows.dims[0], offsets));
  std::vector<GroupMember> members;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t first = offsets[static_cast<size_t>(e)], count = offsets[static_cast<size_t>(e) + 1] - first;
    if (count > 0 && n > 0)
      members.push_back({count, n, k, rowsFrom(rows, first, k), rowsFrom(weights, e, k * n), rowsFrom(out, first, n)});
  }
  return target.device.products.multiplyGroup(target.stream, shape, members);
}

Status CudaKernels::groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) {
  MOERT_RETURN_IF_ERROR(checkGroupedMatmulWgrad(rows, grads, counts, addend, out));
  const int64_t experts = out.dims[0], k = out.dims[1], n = out.dims[2];
  if (addend)
    MOERT_RETURN_IF_ERROR(copy(addend, out));
  ProductShape shape{rows.dtype, k, n, 0, true, false, bool(addend)};
  if (!counts) {
    shape.k = rows.dims[1];
    shape.batches = experts;
    return target.device.products.multiply(target.stream, shape, rows.data, grads.data, out.data);
  }
  std::vector<int64_t> offsets;
  MOERT_RETURN_IF_ERROR(readExpertOffsets(target, counts, rows.dims[0], offsets));
  std::vector<GroupMember> members;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t first = offsets[static_cast<size_t>(e)], count = offsets[static_cast<size_t>(e) + 1] - first;
    const GroupMember member{k, n, count, rowsFrom(rows, first, k), rowsFrom(grads, first, n), rowsFrom(out, e, k * n)};
    if (count > 0 && k > 0 && n > 0)
      members.push_back(member);
    else
      // Of no rows: what was there, or zeros.
      MOERT_RETURN_IF_ERROR(target.device.products.multiply(
          target.stream, {rows.dtype, k, n, 0, true, false, bool(addend)}, member.a, member.b, member.c));
  }
  return target.device.products.multiplyGroup(target.stream, shape, members);
}

} // namespace moert::cuda
