//===- Ragged.cpp - products of experts whose rows vary -------------------===//

#include "calibrate/Ragged.h"
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

Call makeRagged(Pool &pool, const RaggedShape &shape, const View &counts) {
  const auto [isWeightGradient, transposed, experts, each, n, k] = shape;
  const int64_t rows = experts * each;
  pool.beginCall();
  Call call;
  if (isWeightGradient) {
    call.kind = Kind::GroupedMatmulWgrad;
    call.viewCount = 5;
    call.views = {pool.input({rows, k}), pool.input({rows, n}), counts, View(), pool.output({experts, k, n})};
    return call;
  }
  call.kind = Kind::GroupedMatmul;
  call.viewCount = 4;
  attributes::GroupedMatmul{.transposeWeights = transposed}.set(call);
  const View weights = transposed ? pool.input({experts, n, k}) : pool.input({experts, k, n});
  call.views = {pool.input({rows, k}), weights, counts, pool.output({rows, n})};
  return call;
}

int64_t bytesOf(const RaggedShape &shape, int32_t dtype) {
  const int64_t rows = shape.experts * shape.rows, weights = shape.experts * shape.n * shape.k;
  const int64_t inputs = shape.isWeightGradient ? rows * (shape.k + shape.n) : rows * shape.k + weights;
  const int64_t output = shape.isWeightGradient ? weights : rows * shape.n;
  // Alignment of operands.
  constexpr int64_t kAlignment = 256, kOperands = 2;
  return std::max(inputs, output) * static_cast<int64_t>(dtypeSize(dtype)) + kOperands * kAlignment;
}

} // namespace moert::calibrate
