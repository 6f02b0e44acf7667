//===- ProductCalls.h - calls of dense products, and of experts' ----------===//
#ifndef MOERT_CALIBRATE_PRODUCTCALLS_H
#define MOERT_CALIBRATE_PRODUCTCALLS_H

#include "calibrate/Measure.h"

#include <map>
#include <tuple>

namespace moert::calibrate {

/// Shape of the product c [m,n] = op(a) op(b).
struct DenseShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;

  bool operator==(const DenseShape &) const = default;
};

/// Product of weights [experts, k, n] or, transposed, [experts, n, k], with `rows` rows of each expert in the mean. A
/// weight gradient is [experts, k, n].
struct RaggedShape {
  bool isWeightGradient = false, transposed = false;
  int64_t experts = 0, rows = 0, n = 0, k = 0;

  bool operator==(const RaggedShape &) const = default;
};

/// Rows of each expert, `total` in all. The share of an expert is proportional to 1 / sqrt(1 + i), where i is a
/// different number from 0 for each; neighbours are apart.
std::vector<int64_t> skewedRows(int64_t experts, int64_t total);

/// Counts in the bench's memory. Calls with equal counts share them, because the host reads them once in a step.
class RaggedCounts {
public:
  explicit RaggedCounts(Bench &bench) : bench(bench) {}
  /// Finds counts of `rows` rows for each expert, or of as many skewed rows in all.
  Status find(int64_t experts, int64_t rows, bool isSkewed, View &counts);

private:
  Bench &bench;
  std::map<std::tuple<int64_t, int64_t, bool>, View> known;
};

/// Begin a call and make its operands.
Call makeDense(Pool &pool, const DenseShape &shape);
Call makeRagged(Pool &pool, const RaggedShape &shape, const View &counts);
/// Bytes of the call's inputs or of its output, whichever are more.
int64_t bytesOf(const DenseShape &shape, int32_t dtype);
int64_t bytesOf(const RaggedShape &shape, int32_t dtype);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_PRODUCTCALLS_H
