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

/// Linear in logarithms between the grid's points, the nearest one outside.
static double getEfficiency(const EfficiencyCurve &curve, double rows, double columns, double depth) {
  AxisPlace places[] = {locate(curve.rows, rows), locate(curve.columns, columns), locate(curve.depth, depth)};
  auto getValue = [&](unsigned corner) {
    size_t row = places[0].index + (corner & 1), column = places[1].index + (corner >> 1 & 1);
    return curve.values[(row * curve.columns.size() + column) * curve.depth.size() + places[2].index + (corner >> 2)];
  };
  if (places[0].weight == 0 && places[1].weight == 0 && places[2].weight == 0)
    return getValue(0);
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    for (unsigned axis = 0; axis < 3; ++axis)
      weight *= corner >> axis & 1 ? places[axis].weight : 1 - places[axis].weight;
    if (weight > 0)
      sum += weight * std::log(getValue(corner));
  }
  return std::exp(sum);
}

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
  return rate.efficiency;
}

/// One product of [rows, depth] and [depth, columns].
static double getProductSeconds(const ClusterProfile &profile, const DeviceRate &rate, const EfficiencyCurve &curve,
                                double rows, double columns, double depth) {
  if (rows <= 0 || columns <= 0 || depth <= 0)
    return 0;
  // Fewer rows than the curve's first take no less time than those.
  double paidRows = std::max(rows, curve.rows.front());
  double efficiency = getEfficiency(curve, paidRows, columns, depth);
  double compute = 2 * paidRows * columns * depth / (rate.flopsPerSecond * efficiency);
  double bytes = (rows * depth + depth * columns + rows * columns) * getElementBytes(rate.dtype);
  return std::max(compute, bytes / profile.memoryBytesPerSecond);
}

static Expected<double> getMatrixSeconds(const ClusterProfile &profile, const Work &work) {
  const DeviceRate *rate = profile.getRate(work.dtype);
  if (!rate) {
    std::string known =
        llvm::join(llvm::map_range(profile.rates, [](const DeviceRate &rate) { return rate.dtype; }), ", ");
    return makeCostError("cluster '" + profile.name + "' has no rate for dtype '" + work.dtype + "'; it has " + known);
  }
  const EfficiencyCurve &curve = getCurve(*rate, work);
  const GemmShape &gemm = work.cost->gemm;
  auto getProduct = [&](int64_t rows, int64_t depth) {
    return getProductSeconds(profile, *rate, curve, rows, gemm.columns, depth);
  };
  if (work.rows.empty())
    return gemm.groups * getProduct(gemm.rows, gemm.depth);
  double seconds = 0;
  for (int64_t rows : work.rows)
    seconds += work.cost->raggedDepth ? getProduct(gemm.rows, rows) : getProduct(rows, gemm.depth);
  return seconds;
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
static double getBytes(const Work &work) {
  double bytes = static_cast<double>(work.cost->getBytesMoved());
  if (work.rows.empty() || work.cost->raggedRows == 0)
    return bytes;
  double used = 0;
  for (int64_t rows : work.rows)
    used += rows;
  return bytes * used / work.cost->raggedRows;
}

std::optional<double> CostModel::getRelativeError(const Work &work) const {
  const KernelRate *kernel = work.cost->resource == Resource::Memory ? findKernel(state->kernels, work) : nullptr;
  return kernel ? kernel->relativeError : std::nullopt;
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
    seconds = *matrix;
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
