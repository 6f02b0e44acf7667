//===- LaunchSeconds.cpp - seconds of launches without exchanges ----------===//
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

/// Place of a size on an axis: from point `index`, the part `weight` of the distance to the next point, in logarithms.
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

/// Interpolates on a grid, linearly in logarithms. The last axis changes fastest. Sizes outside take the nearest point.
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

/// Efficiency of the products of one launch, which differ only in their rows.
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
  /// Efficiency at a point of the axis of rows, computed once.
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

/// Bytes of an element by the digits of its type, such as f32 and bf16; 0 if there are none.
static double getElementBytes(StringRef dtype) {
  unsigned bits = 0;
  if (dtype.drop_while([](char c) { return !llvm::isDigit(c); }).getAsInteger(10, bits))
    return 0;
  return bits / 8.0;
}

static bool hasLeadingParams(const Work &work, llvm::ArrayRef<int64_t> params) {
  return work.params.take_front(params.size()) == params;
}

/// Curve for the launch's products.
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

/// Whether the curve is for whole launches, including the time in which the bytes of their products move.
static bool isGrouped(const DeviceRate &rate, const EfficiencyCurve &curve) {
  return curve.groups.back() > 1 || (rate.grouped && &curve == &*rate.grouped);
}

/// Seconds of products that run together in a launch, by a curve for whole launches. In a weight gradient, the experts'
/// rows are the depth of products. A product has the same operations and bytes if its sizes change places, so these
/// rows are the curve's rows too.
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

/// Curves for attention with this dtype and number of products: the one with the most columns of a head up to those of
/// the launch, and the one with the fewest that are enough. Both are the same if there is only one, and null if there
/// is none.
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

/// Length and heads of causal sequences with the same work: each query sees the same number of keys, half of the length
/// on average. The rows of queries decide how full a device is, so a length above `longest` counts as several heads.
static std::pair<double, double> getCausalShape(const GemmShape &gemm,
                                                double longest = std::numeric_limits<double>::infinity()) {
  double length = std::min(gemm.columns > 1 ? 2.0 * gemm.columns : 1, longest);
  return {length, std::max(static_cast<double>(gemm.groups) * gemm.rows / length, 1.0)};
}

static double getEfficiency(const AttentionCurve &curve, const GemmShape &gemm) {
  auto [length, heads] = getCausalShape(gemm, curve.length.back());
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

/// Seconds of products that run one after the other in a launch.
static double getSeparateSeconds(const ClusterProfile &profile, const DeviceRate &rate, const EfficiencyCurve &curve,
                                 const Work &work) {
  const GemmShape &gemm = work.cost->gemm;
  double columns = gemm.columns;
  auto getProduct = [&](RowsCurve &byRows, double rows, double depth) -> double {
    if (rows <= 0 || columns <= 0 || depth <= 0)
      return 0;
    // Fewer rows than the first of the curve take as long as those.
    double paidRows = std::max(rows, byRows.getFirst());
    double compute = 2 * paidRows * columns * depth / (rate.flopsPerSecond * byRows.getEfficiency(paidRows));
    double bytes = (rows * depth + depth * columns + rows * columns) * getElementBytes(rate.dtype);
    return std::max(compute, bytes / profile.memoryBytesPerSecond);
  };
  RowsCurve byRows(curve, columns, gemm.depth, 1);
  if (work.rows.empty())
    return gemm.groups * getProduct(byRows, gemm.rows, gemm.depth);
  double seconds = 0;
  for (int64_t rows : work.rows) {
    if (!work.cost->raggedDepth) {
      seconds += getProduct(byRows, rows, gemm.depth);
      continue;
    }
    RowsCurve byDepth(curve, columns, rows, 1);
    seconds += getProduct(byDepth, gemm.rows, rows);
  }
  return seconds;
}

/// Used share of a ragged launch's rows; 1 for other launches.
static double getUse(const Work &work) {
  if (work.rows.empty() || work.cost->raggedRows == 0)
    return 1;
  double used = 0;
  for (int64_t rows : work.rows)
    used += rows;
  return used / static_cast<double>(work.cost->raggedRows);
}

/// Bytes that a launch of products moves: the matrices of all products, in the type of the operands, and further bytes.
/// These are values that the results are added to, and results of a wider type.
static std::pair<double, double> countBytes(const DeviceRate &rate, const Work &work) {
  const OpCost &cost = *work.cost;
  double groups = cost.gemm.groups, rows = cost.gemm.rows, columns = cost.gemm.columns, depth = cost.gemm.depth;
  double perElement = groups * getElementBytes(rate.dtype);
  double rowBytes = perElement * (cost.raggedDepth ? depth * (rows + columns) : rows * (depth + columns));
  double weightBytes = perElement * (cost.raggedDepth ? rows * columns : depth * columns);
  double moved = static_cast<double>(cost.getBytesMoved());
  return {getUse(work) * rowBytes + weightBytes, std::max(0.0, moved - rowBytes - weightBytes)};
}

static Expected<double> getMatrixSeconds(const ClusterProfile &profile, const Work &work) {
  const DeviceRate *rate = profile.getRate(work.dtype);
  if (!rate) {
    auto known = llvm::map_range(profile.rates, [](const DeviceRate &rate) { return rate.dtype; });
    return llvm::createStringError("cluster '" + profile.name + "' has no rate for dtype '" + work.dtype +
                                   "'; it has " + llvm::join(known, ", "));
  }
  if (auto [below, above] = findAttention(profile, *rate, work); below)
    return getAttentionSeconds(*rate, *below, *above, *work.cost);
  const EfficiencyCurve &curve = getCurve(*rate, work);
  double seconds =
      isGrouped(*rate, curve) ? getGroupedSeconds(*rate, curve, work) : getSeparateSeconds(profile, *rate, curve, work);
  // Curves include the matrices of their products, which may move faster than the profile's memory bandwidth.
  auto [plain, extra] = countBytes(*rate, work);
  if (extra == 0 || seconds == 0)
    return seconds;
  double bandwidth = std::max(profile.memoryBytesPerSecond, plain / seconds);
  return std::max(seconds, (plain + extra) / bandwidth);
}

/// Most specific entry for the launch; null if there is none.
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

/// Bytes read and written for used rows.
static double getBytes(const Work &work) { return getUse(work) * static_cast<double>(work.cost->getBytesMoved()); }

/// Whether the sizes of a launch's products, as a curve counts them, are within its grid.
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
  if (work.cost->resource == Resource::Matrix) {
    Confidence confidence = getMatrixConfidence(profile, work);
    const NarrowProduct *product = profile.precision.find(work.kernel, work.dtype, *work.cost);
    // The standalone program does without std::hypot, which needs glibc 2.35.
    if (product && product->relativeError && confidence.relativeError)
      confidence.relativeError = std::sqrt(*confidence.relativeError * *confidence.relativeError +
                                           *product->relativeError * *product->relativeError);
    return confidence;
  }
  const KernelRate *kernel = work.cost->resource == Resource::Memory ? findKernel(state->kernels, work) : nullptr;
  return {kernel ? kernel->relativeError : std::nullopt, false};
}

static double getFactor(const ClusterProfile &profile, const Work &work) {
  for (const KernelFactor &factor : llvm::reverse(profile.factors))
    if (factor.calls.kernel.empty() ? work.cost->resource == Resource::Memory
                                    : factor.calls.kernel == work.kernel && hasLeadingParams(work, factor.calls.params))
      return factor.times;
  return 1;
}

/// Seconds of a product that takes `seconds` in the type of its operands, with the quantisation of its rows if it is a
/// narrow one.
static double narrow(const ClusterProfile &profile, const Work &work, double seconds) {
  const NarrowProduct *product = profile.precision.find(work.kernel, work.dtype, *work.cost);
  if (!product || seconds == 0)
    return seconds;
  const GemmShape &gemm = work.cost->gemm;
  double elements = getUse(work) * static_cast<double>(gemm.groups) * static_cast<double>(gemm.rows * gemm.depth);
  OpCost quantisation;
  quantisation.resource = Resource::Memory;
  double times = getFactor(profile, Work{"", {}, work.dtype, &quantisation, {}});
  return product->fixedSeconds + product->times * seconds +
         times * elements * product->bytesPerElement / profile.memoryBytesPerSecond;
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
    return std::max(narrow(profile, work, seconds * getFactor(profile, work)), profile.kernelSeconds);
  }
  case Resource::Memory: {
    const KernelRate *kernel = findKernel(state->kernels, work);
    seconds = kernel ? kernel->latency + getBytes(work) / kernel->bytesPerSecond
                     : getBytes(work) / profile.memoryBytesPerSecond;
    break;
  }
  case Resource::HostLink:
    if (!profile.hostBytesPerSecond)
      return llvm::createStringError("cluster '" + profile.name + "' has no 'device.host_link', which '" + work.kernel +
                                     "' needs");
    // Each byte is read on one side of the link and written on the other, and crosses it once.
    seconds = profile.hostLatency + static_cast<double>(std::max(work.cost->bytesRead, work.cost->bytesWritten)) /
                                        *profile.hostBytesPerSecond;
    break;
  case Resource::Network:
    return llvm::createStringError("expected a kernel but got the exchange '" + work.kernel +
                                   "', whose time depends on its group");
  }
  return std::max(seconds * getFactor(profile, work), profile.kernelSeconds);
}
