//===- LaunchSeconds.cpp - launches that meet nobody ---------------------===//
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace {

/// Between which points of an axis a size lies: at `index`, and by `weight` of the way, in logarithms, at the next one.
struct AxisPlace {
  size_t index = 0;
  double weight = 0;
};

} // namespace

static AxisPlace locate(llvm::ArrayRef<double> axis, double size) {
  if (size <= axis.front())
    return {};
  if (size >= axis.back())
    return {axis.size() - 1, 0};
  size_t next = llvm::upper_bound(axis, size) - axis.begin();
  return {next - 1, std::log(size / axis[next - 1]) / std::log(axis[next] / axis[next - 1])};
}

static bool isWithin(llvm::ArrayRef<double> axis, double size) { return axis.front() <= size && size <= axis.back(); }

/// Linear in logarithms between the points of a grid, whose last axis changes fastest; the nearest point outside.
static double interpolate(llvm::ArrayRef<double> values, llvm::ArrayRef<size_t> sizes,
                          llvm::ArrayRef<AxisPlace> places) {
  double sum = 0;
  for (unsigned corner = 0; corner < 1u << places.size(); ++corner) {
    double weight = 1;
    size_t index = 0;
    for (auto [axis, place] : llvm::enumerate(places)) {
      bool isNext = corner >> axis & 1;
      weight *= isNext ? place.weight : 1 - place.weight;
      index = index * sizes[axis] + place.index + isNext;
    }
    if (weight > 0)
      sum += weight * std::log(values[index]);
  }
  return std::exp(sum);
}

namespace {

/// The efficiency of the products of one launch, which differ in their rows only.
class RowsCurve {
public:
  RowsCurve(const EfficiencyCurve &curve, double columns, double depth, double groups)
      : curve(curve),
        others{{}, locate(curve.columns, columns), locate(curve.depth, depth), locate(curve.groups, groups)},
        atRows(curve.rows.size()) {}

  double getFirst() const { return curve.rows.front(); }
  double getEfficiency(double rows) {
    AxisPlace place = locate(curve.rows, rows);
    double low = getAt(place.index);
    return place.weight == 0 ? low : low * std::pow(getAt(place.index + 1) / low, place.weight);
  }

private:
  /// At a point of the axis of rows, computed once.
  double getAt(size_t row) {
    double &value = atRows[row];
    if (value == 0) {
      others[0] = {row, 0};
      value = interpolate(curve.values,
                          {curve.rows.size(), curve.columns.size(), curve.depth.size(), curve.groups.size()}, others);
    }
    return value;
  }

  const EfficiencyCurve &curve;
  AxisPlace others[4];
  llvm::SmallVector<double, 16> atRows;
};

} // namespace

/// The digits of f32, bf16, ..; 0 where there are none.
static double getElementBytes(StringRef dtype) {
  unsigned bits = 0;
  if (dtype.drop_while([](char c) { return !llvm::isDigit(c); }).getAsInteger(10, bits))
    return 0;
  return bits / 8.0;
}

static bool hasLeadingParams(const Work &work, llvm::ArrayRef<int64_t> params) {
  return work.params.take_front(params.size()) == params;
}

/// The curve that holds for the launch's products.
static const EfficiencyCurve &getCurve(const DeviceRate &rate, const Work &work) {
  for (const SpecialCurve &special : llvm::reverse(rate.special)) {
    bool fits = special.calls.empty() || llvm::any_of(special.calls, [&](const KernelCalls &calls) {
                  return calls.kernel == work.kernel && hasLeadingParams(work, calls.params);
                });
    fits &= !special.isRagged || work.cost->raggedRows > 0;
    if (fits && work.cost->gemm.columns % special.columnsMultiple == 0)
      return special.efficiency;
  }
  bool isGrouped = work.cost->gemm.groups > 1 || work.cost->raggedRows > 0;
  return isGrouped && rate.grouped ? *rate.grouped : rate.efficiency;
}

/// Whether the curve is of launches as a whole, with the time in which the bytes of all their products move.
static bool isGrouped(const DeviceRate &rate, const EfficiencyCurve &curve) {
  return curve.groups.back() > 1 || (rate.grouped && &curve == &*rate.grouped);
}

/// One product of [rows, depth] and [depth, columns].
static double getProductSeconds(const ClusterProfile &profile, const DeviceRate &rate, RowsCurve &curve, double rows,
                                double columns, double depth) {
  if (rows <= 0 || columns <= 0 || depth <= 0)
    return 0;
  // Fewer rows than the curve's first take no less time than those.
  double paidRows = std::max(rows, curve.getFirst());
  double compute = 2 * paidRows * columns * depth / (rate.flopsPerSecond * curve.getEfficiency(paidRows));
  double bytes = (rows * depth + depth * columns + rows * columns) * getElementBytes(rate.dtype);
  return std::max(compute, bytes / profile.memoryBytesPerSecond);
}

/// Products of one launch that run together, by a curve for launches as a whole. In a weight gradient experts' rows are
/// the depth: as a product does as many operations and moves as many bytes whichever of its sizes are called rows, they
/// are the curve's rows there, too.
static double getGroupedSeconds(const DeviceRate &rate, const EfficiencyCurve &curve, const Work &work) {
  const GemmShape &gemm = work.cost->gemm;
  auto used = static_cast<double>(llvm::count_if(work.rows, [](int64_t rows) { return rows > 0; }));
  double depth = work.cost->raggedDepth ? gemm.rows : gemm.depth;
  RowsCurve byRows(curve, gemm.columns, depth, work.rows.empty() ? gemm.groups : used);
  auto getSeconds = [&](double rows) {
    double paidRows = std::max(rows, byRows.getFirst());
    return 2 * paidRows * gemm.columns * depth / (rate.flopsPerSecond * byRows.getEfficiency(paidRows));
  };
  if (gemm.columns == 0 || depth == 0)
    return 0;
  if (work.rows.empty()) {
    double rows = work.cost->raggedDepth ? gemm.depth : gemm.rows;
    return rows > 0 ? gemm.groups * getSeconds(rows) : 0;
  }
  double seconds = 0;
  for (int64_t rows : work.rows)
    seconds += rows > 0 ? getSeconds(rows) : 0;
  return seconds;
}

/// The profile's curves for attention of this dtype and number of products, with the most columns of a head that are
/// not too many and with the fewest that are enough. Where there is only one of them it is both, and where none both
/// are null.
static std::pair<const AttentionCurve *, const AttentionCurve *>
findAttention(const ClusterProfile &profile, const DeviceRate &rate, const Work &work) {
  const AttentionCurve *below = nullptr, *above = nullptr;
  const AttentionShape &shape = work.cost->attention;
  for (const AttentionCurve &curve : profile.attention) {
    if (curve.dtype != (rate.like.empty() ? rate.dtype : rate.like) || curve.products != shape.products ||
        shape.headColumns == 0)
      continue;
    if (curve.headColumns <= shape.headColumns)
      below = &curve;
    if (curve.headColumns >= shape.headColumns && !above)
      above = &curve;
  }
  return {below ? below : above, above ? above : below};
}

/// Causal sequences that are as much work: each query sees the same number of keys, half of their length on average.
static std::pair<double, double> getCausalShape(const GemmShape &gemm) {
  double length = gemm.columns > 1 ? 2.0 * gemm.columns : 1;
  return {length, std::max(static_cast<double>(gemm.groups) * gemm.rows / length, 1.0)};
}

static double getEfficiency(const AttentionCurve &curve, const GemmShape &gemm) {
  auto [length, heads] = getCausalShape(gemm);
  return interpolate(curve.values, {curve.length.size(), curve.heads.size()},
                     {locate(curve.length, length), locate(curve.heads, heads)});
}

static double getAttentionSeconds(const DeviceRate &rate, const AttentionCurve &below, const AttentionCurve &above,
                                  const OpCost &cost) {
  double efficiency = getEfficiency(below, cost.gemm);
  if (above.headColumns > below.headColumns) {
    double columns = below.headColumns;
    double weight = std::log(cost.attention.headColumns / columns) / std::log(above.headColumns / columns);
    efficiency *= std::pow(getEfficiency(above, cost.gemm) / efficiency, weight);
  }
  return cost.gemm.getFlops() / (rate.flopsPerSecond * efficiency);
}

static Expected<const DeviceRate *> getRate(const ClusterProfile &profile, const Work &work) {
  if (const DeviceRate *rate = profile.getRate(work.dtype))
    return rate;
  std::string known =
      llvm::join(llvm::map_range(profile.rates, [](const DeviceRate &rate) { return rate.dtype; }), ", ");
  return makeCostError("cluster '" + profile.name + "' has no rate for dtype '" + work.dtype + "'; it has " + known);
}

/// Products of one launch that run one after the other.
static double getSeparateSeconds(const ClusterProfile &profile, const DeviceRate &rate, const EfficiencyCurve &curve,
                                 const Work &work) {
  const GemmShape &gemm = work.cost->gemm;
  auto getProduct = [&](RowsCurve &byRows, int64_t rows, int64_t depth) {
    return getProductSeconds(profile, rate, byRows, rows, gemm.columns, depth);
  };
  if (work.rows.empty() || !work.cost->raggedDepth) {
    RowsCurve byRows(curve, gemm.columns, gemm.depth, 1);
    if (work.rows.empty())
      return gemm.groups * getProduct(byRows, gemm.rows, gemm.depth);
    double seconds = 0;
    for (int64_t rows : work.rows)
      seconds += getProduct(byRows, rows, gemm.depth);
    return seconds;
  }
  double seconds = 0;
  for (int64_t depth : work.rows) {
    RowsCurve byRows(curve, gemm.columns, depth, 1);
    seconds += getProduct(byRows, gemm.rows, depth);
  }
  return seconds;
}

namespace {

/// Bytes that a launch of products moves.
struct ProductBytes {
  double plain = 0; ///< the matrices of all products, in the type of the operands
  double extra = 0; ///< what else it moves: values to which the results are added, results of a wider type
};

} // namespace

/// The part of a ragged launch's rows that are used; 1 of others.
static double getUse(const Work &work) {
  if (work.rows.empty() || work.cost->raggedRows == 0)
    return 1;
  double used = 0;
  for (int64_t rows : work.rows)
    used += rows;
  return used / static_cast<double>(work.cost->raggedRows);
}

static ProductBytes countBytes(const DeviceRate &rate, const Work &work) {
  const OpCost &cost = *work.cost;
  double groups = cost.gemm.groups, rows = cost.gemm.rows, columns = cost.gemm.columns, depth = cost.gemm.depth;
  double perElement = groups * getElementBytes(rate.dtype);
  double rowBytes = perElement * (cost.raggedDepth ? depth * (rows + columns) : rows * (depth + columns));
  double weightBytes = perElement * (cost.raggedDepth ? rows * columns : depth * columns);
  double moved = static_cast<double>(cost.getBytesMoved());
  return {getUse(work) * rowBytes + weightBytes, std::max(0.0, moved - rowBytes - weightBytes)};
}

static Expected<double> getMatrixSeconds(const ClusterProfile &profile, const Work &work) {
  Expected<const DeviceRate *> rate = getRate(profile, work);
  if (!rate)
    return rate.takeError();
  if (auto [below, above] = findAttention(profile, **rate, work); below)
    return getAttentionSeconds(**rate, *below, *above, *work.cost);
  const EfficiencyCurve &curve = getCurve(**rate, work);
  double seconds = isGrouped(**rate, curve) ? getGroupedSeconds(**rate, curve, work)
                                            : getSeparateSeconds(profile, **rate, curve, work);
  // A curve is of products that move their own matrices, perhaps faster than the memory is said to be.
  auto [plain, extra] = countBytes(**rate, work);
  if (extra == 0 || seconds == 0)
    return seconds;
  double bandwidth = std::max(profile.memoryBytesPerSecond, plain / seconds);
  return std::max(seconds, (plain + extra) / bandwidth);
}

/// The entry that says most about the launch, or null.
static const KernelRate *findKernel(const llvm::StringMap<llvm::SmallVector<const KernelRate *>> &kernels,
                                    const Work &work) {
  const KernelRate *best = nullptr;
  auto getDetail = [](const KernelRate *kernel) { return std::pair(kernel->params.size(), !kernel->dtype.empty()); };
  for (const KernelRate *kernel : kernels.lookup(work.kernel)) {
    bool hasDtype = kernel->dtype.empty() || kernel->dtype == work.dtype;
    if (hasDtype && hasLeadingParams(work, kernel->params) && (!best || getDetail(kernel) > getDetail(best)))
      best = kernel;
  }
  return best;
}

/// Bytes read and written by the rows that are used.
static double getBytes(const Work &work) { return getUse(work) * static_cast<double>(work.cost->getBytesMoved()); }

/// Whether the products of a launch, as a curve counts their sizes, lie within its grid.
static bool isWithin(const EfficiencyCurve &curve, const Work &work, bool isGrouped) {
  const GemmShape &gemm = work.cost->gemm;
  bool isSwapped = isGrouped && work.cost->raggedDepth;
  return isWithin(curve.rows, isSwapped ? gemm.depth : gemm.rows) && isWithin(curve.columns, gemm.columns) &&
         isWithin(curve.depth, isSwapped ? gemm.rows : gemm.depth);
}

static Confidence getMatrixConfidence(const ClusterProfile &profile, const Work &work) {
  const DeviceRate *rate = profile.getRate(work.dtype);
  if (!rate)
    return {};
  if (auto [below, above] = findAttention(profile, *rate, work); below) {
    int64_t columns = work.cost->attention.headColumns;
    auto [length, heads] = getCausalShape(work.cost->gemm);
    return {std::max(below->relativeError, above->relativeError),
            columns < below->headColumns || columns > above->headColumns || !isWithin(below->length, length) ||
                !isWithin(below->heads, heads)};
  }
  const EfficiencyCurve &curve = getCurve(*rate, work);
  return {curve.relativeError, !isWithin(curve, work, isGrouped(*rate, curve))};
}

Confidence CostModel::getConfidence(const Work &work) const {
  if (work.cost->resource == Resource::Matrix)
    return getMatrixConfidence(profile, work);
  const KernelRate *kernel = work.cost->resource == Resource::Memory ? findKernel(state->kernels, work) : nullptr;
  return {kernel ? kernel->relativeError : std::nullopt, false};
}

Expected<double> CostModel::getSeconds(const Work &work) const {
  double seconds = 0;
  switch (work.cost->resource) {
  case Resource::None:
    return 0;
  case Resource::Matrix: {
    Expected<double> matrix = getMatrixSeconds(profile, work);
    if (!matrix)
      return matrix.takeError();
    seconds = *matrix / profile.sustained;
    break;
  }
  case Resource::Memory: {
    const KernelRate *kernel = findKernel(state->kernels, work);
    seconds = kernel ? kernel->latency + getBytes(work) / kernel->bytesPerSecond
                     : getBytes(work) / profile.memoryBytesPerSecond;
    break;
  }
  case Resource::HostLink:
    if (!profile.hostBytesPerSecond)
      return makeCostError("cluster '" + profile.name + "' has no 'device.host_link', which '" + work.kernel +
                           "' needs");
    // Each byte crosses it once, though it is read here and written there.
    seconds = profile.hostLatency + static_cast<double>(std::max(work.cost->bytesRead, work.cost->bytesWritten)) /
                                        *profile.hostBytesPerSecond;
    break;
  case Resource::Network:
    return makeCostError("expected a kernel but got the exchange '" + work.kernel +
                         "', whose time depends on its group");
  }
  return std::max(seconds, profile.kernelSeconds);
}
