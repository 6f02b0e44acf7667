//===- ProductCalls.cpp - calls of dense products, and of experts' --------===//

#include "calibrate/ProductCalls.h"
#include "core/Attributes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moert::calibrate {

std::vector<int64_t> skewedRows(int64_t experts, int64_t total) {
  int64_t step = 7;
  while (std::gcd(step, experts) != 1)
    ++step;
  std::vector<double> ends;
  for (int64_t e = 0; e < experts; ++e)
    ends.push_back((ends.empty() ? 0 : ends.back()) + 1 / std::sqrt(1.0 + static_cast<double>(e * step % experts)));
  std::vector<int64_t> rows;
  int64_t before = 0;
  for (double end : ends) {
    const int64_t place = std::llround(end / ends.back() * static_cast<double>(total));
    rows.push_back(place - before);
    before = place;
  }
  return rows;
}

Status RaggedCounts::find(int64_t experts, int64_t rows, bool isSkewed, View &counts) {
  View &view = known[{experts, rows, isSkewed}];
  if (!view) {
    const std::vector<int64_t> each =
        isSkewed ? skewedRows(experts, experts * rows) : std::vector<int64_t>(static_cast<size_t>(experts), rows);
    const std::vector<int32_t> values(each.begin(), each.end());
    View made{nullptr, MOERT_I32, 2, {1, experts}};
    MOERT_RETURN_IF_ERROR(bench.allocate(made.bytes(), made.data));
    bench.write(made.data, values.data(), made.bytes());
    view = made;
  }
  counts = view;
  return {};
}

Call makeDense(Pool &pool, const DenseShape &shape) {
  const auto [m, n, k, transposeA, transposeB] = shape;
  pool.beginCall();
  Call call = callOf(Kind::Matmul, {transposeA ? pool.input({k, m}) : pool.input({m, k}),
                                    transposeB ? pool.input({n, k}) : pool.input({k, n}), pool.output({m, n})});
  attributes::Matmul{.transposeA = transposeA, .transposeB = transposeB}.set(call);
  return call;
}

Call makeRagged(Pool &pool, const RaggedShape &shape, const View &counts) {
  const auto [isWeightGradient, transposed, experts, each, n, k] = shape;
  const int64_t rows = experts * each;
  pool.beginCall();
  if (isWeightGradient)
    return callOf(Kind::GroupedMatmulWgrad,
                  {pool.input({rows, k}), pool.input({rows, n}), counts, View(), pool.output({experts, k, n})});
  const View weights = transposed ? pool.input({experts, n, k}) : pool.input({experts, k, n});
  Call call = callOf(Kind::GroupedMatmul, {pool.input({rows, k}), weights, counts, pool.output({rows, n})});
  attributes::GroupedMatmul{.transposeWeights = transposed}.set(call);
  return call;
}

/// Bytes of `elements` elements and of the alignment of two operands.
static int64_t alignedBytes(int64_t elements, int32_t dtype) {
  return elements * static_cast<int64_t>(dtypeSize(dtype)) + 2 * 256;
}

int64_t bytesOf(const DenseShape &shape, int32_t dtype) {
  return alignedBytes(std::max((shape.m + shape.n) * shape.k, shape.m * shape.n), dtype);
}

int64_t bytesOf(const RaggedShape &shape, int32_t dtype) {
  const int64_t rows = shape.experts * shape.rows, weights = shape.experts * shape.n * shape.k;
  const int64_t inputs = shape.isWeightGradient ? rows * (shape.k + shape.n) : rows * shape.k + weights;
  return alignedBytes(std::max(inputs, shape.isWeightGradient ? weights : rows * shape.n), dtype);
}

} // namespace moert::calibrate
