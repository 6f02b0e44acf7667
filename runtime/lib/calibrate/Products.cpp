//===- Products.cpp - matrix products over a grid of shapes ---------------===//
//
// Libraries have different kernels for transposed operands, and are slower if the rows of an operand are a multiple of
// a page apart (columns that are multiples of large powers of two). Such shapes have curves of their own. A device is
// only busy with all groups of a grouped product at once. So grouped products have their own curves on devices, and so
// do products of experts whose rows vary, which other kernels compute.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/ProductCalls.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace moert::calibrate {
namespace {

struct CurveGrid {
  Curve curve;
  Kind kind = Kind::Matmul;
  bool transposeA = false; ///< whether Kind::Matmul transposes a
  bool transposeB = false; ///< whether Kind::Matmul or a ragged product transposes b
};

/// Number of groups of a grouped product: experts of a rank.
constexpr int64_t kGroups = 8;

/// Numbers of rows, dense where libraries change from one kernel to the next, because experts have few rows.
const std::vector<int64_t> kProductRows = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 384, 512, 1024};

/// Grid of columns whose largest power of two is `multiple`; with 1, all columns that no other curve has.
CurveGrid plainGrid(int64_t multiple, std::vector<int64_t> columns) {
  const std::vector<KernelCalls> calls = {{"matmul", {0, 0}}, {"grouped_matmul", {0}}};
  return {{calls, multiple, kProductRows, std::move(columns), {64, 256, 1024}, {}}};
}

/// Grid of weight gradients, whose depth is an expert's rows.
CurveGrid gradientGrid(int64_t multiple, std::vector<int64_t> columns) {
  const std::vector<KernelCalls> calls = {{"matmul", {1, 0}}, {"matmul_wgrad", {}}, {"grouped_matmul_wgrad", {}}};
  const std::vector<int64_t> rows = {8, 64, 192, 352, 704, 1408},
                             depth = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024};
  return {{calls, multiple, rows, std::move(columns), depth, {}}, Kind::Matmul, true};
}

std::vector<CurveGrid> hostGrids() {
  std::vector<CurveGrid> grids;
  // Second operands are transposed. This curve is for all products that the others do not name.
  const std::vector<int64_t> columns = {1, 8, 32, 64, 128, 512, 1024, 2048},
                             depth = {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  grids.push_back({{{}, 1, kProductRows, columns, depth, {}}, Kind::Matmul, false, true});
  grids.push_back(plainGrid(1, {1, 2, 4, 8, 16, 32, 64, 192, 704, 2880}));
  grids.push_back(plainGrid(128, {128, 640, 1408}));
  grids.push_back(plainGrid(256, {256, 768, 2816}));
  grids.push_back(plainGrid(512, {512, 1536, 2560}));
  grids.push_back(plainGrid(1024, {1024, 3072}));
  grids.push_back(gradientGrid(1, {1, 8, 64, 192, 704, 1408}));
  grids.push_back(gradientGrid(256, {256, 768, 2816}));
  grids.push_back(gradientGrid(1024, {1024, 3072}));
  return grids;
}

/// Sizes of at most `most`, or the first one.
std::vector<int64_t> upTo(int64_t most, std::vector<int64_t> sizes) {
  while (sizes.size() > 1 && sizes.back() > most)
    sizes.pop_back();
  return sizes;
}

/// Adds grids of ragged products: forward, with transposed weights, and weight gradients. `wide` are the columns and
/// the depth.
void addRaggedGrids(int64_t most, const std::vector<int64_t> &wide, std::vector<CurveGrid> &grids) {
  const KernelCalls forms[] = {{"grouped_matmul", {0}}, {"grouped_matmul", {1}}, {"grouped_matmul_wgrad", {}}};
  for (const KernelCalls &calls : forms) {
    CurveGrid &grid = grids.emplace_back();
    grid.kind = calls.params.empty() ? Kind::GroupedMatmulWgrad : Kind::GroupedMatmul;
    grid.transposeB = calls.params == std::vector<int64_t>{1};
    grid.curve = {{calls}, 1, upTo(most, {1, 8, 32, 64, 128, 256, 512, 1024, 2048}), wide, wide, {}, true};
    grid.curve.groups = upTo(most, {2, 8, 32, 128});
  }
}

/// Grids of dense products with rows, columns and depth up to `most`, and of experts with fewer.
std::vector<CurveGrid> deviceGrids(int64_t most) {
  std::vector<CurveGrid> grids(3);
  const std::vector<int64_t> sizes = upTo(most, {64, 256, 1024, 4096});
  grids[0].curve = {{}, 1, upTo(most, {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}), sizes, sizes, {}};
  const std::vector<int64_t> wide = upTo(most, {64, 512, 2048}), few = upTo(most, {1, 8, 16, 32, 64, 128, 256, 1024});
  grids[1].kind = Kind::GroupedMatmul;
  grids[1].curve = {{{"grouped_matmul", {}}}, 1, few, wide, wide, {}};
  grids[2].kind = Kind::GroupedMatmulWgrad;
  grids[2].curve = {{{"grouped_matmul_wgrad", {}}}, 1, wide, wide, few, {}};
  addRaggedGrids(most, wide, grids);
  return grids;
}

/// Keeps every second point of an axis of more than three points, and the last.
void thin(std::vector<int64_t> &axis) {
  if (axis.size() <= 3)
    return;
  std::vector<int64_t> kept;
  for (size_t i = (axis.size() + 1) % 2; i < axis.size(); i += 2)
    kept.push_back(axis[i]);
  axis = kept;
}

/// Makes a dense product, or one of full groups, which needs no counts.
Call makeProduct(Pool &pool, const CurveGrid &grid, int64_t m, int64_t n, int64_t k) {
  if (grid.kind == Kind::Matmul)
    return makeDense(pool, {m, n, k, grid.transposeA, grid.transposeB});
  pool.beginCall();
  const std::vector<int64_t> b = {kGroups, k, n}, c = {kGroups, m, n};
  if (grid.kind == Kind::GroupedMatmul)
    return callOf(grid.kind, {pool.input({kGroups, m, k}), pool.input(b), View(), pool.output(c)});
  return callOf(grid.kind, {pool.input({kGroups, k, m}), pool.input(b), View(), View(), pool.output(c)});
}

/// Calls of one curve: first of all curves, then of the ragged ones again with skewed rows.
struct CurveCalls {
  size_t grid = 0;
  bool isSkewed = false;
  size_t first = 0, end = 0;  ///< range of the curve's calls
  std::vector<size_t> points; ///< index of the call of each value
};

struct Measurements {
  std::vector<MakeCall> calls;
  std::vector<double> flops; ///< operations of each call
  std::vector<CurveCalls> curves;
};

double countFlops(int64_t groups, int64_t m, int64_t n, int64_t k) {
  return 2 * static_cast<double>(groups) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

/// Adds a call for each point.
void addCalls(Pool &pool, const CurveGrid &grid, Measurements &all, CurveCalls &curve) {
  for (int64_t m : grid.curve.rows)
    for (int64_t n : grid.curve.columns)
      for (int64_t k : grid.curve.depth) {
        curve.points.push_back(all.calls.size());
        all.flops.push_back(countFlops(grid.kind == Kind::Matmul ? 1 : kGroups, m, n, k));
        all.calls.push_back([&pool, &grid, m, n, k] { return makeProduct(pool, grid, m, n, k); });
      }
}

/// Adds a call with equal or skewed counts for each point whose operands fit into memory. A point that does not fit
/// uses the call with the most groups that fit, because these groups already keep all of a device busy.
Status addRaggedCalls(Pool &pool, const CurveGrid &grid, RaggedCounts &counts, Measurements &all, CurveCalls &curve) {
  for (int64_t rows : grid.curve.rows)
    for (int64_t n : grid.curve.columns)
      for (int64_t k : grid.curve.depth)
        for (int64_t groups : grid.curve.groups) {
          const RaggedShape shape{grid.kind == Kind::GroupedMatmulWgrad, grid.transposeB, groups, rows, n, k};
          const bool isFirst = groups == grid.curve.groups.front();
          if (isFirst || bytesOf(shape, pool.type()) <= pool.bench().reach.call) {
            View view;
            MOERT_RETURN_IF_ERROR(counts.find(groups, rows, curve.isSkewed, view));
            all.flops.push_back(countFlops(groups, rows, n, k));
            all.calls.push_back([&pool, shape, view] { return makeRagged(pool, shape, view); });
          }
          curve.points.push_back(all.calls.size() - 1);
        }
  return {};
}

Status addAll(Pool &pool, const std::vector<CurveGrid> &grids, RaggedCounts &counts, Measurements &all) {
  for (bool isSkewed : {false, true})
    for (size_t g = 0; g < grids.size(); ++g) {
      if (isSkewed && !grids[g].curve.isRagged)
        continue;
      CurveCalls curve{g, isSkewed, all.calls.size(), 0, {}};
      if (!grids[g].curve.isRagged)
        addCalls(pool, grids[g], all, curve);
      else
        MOERT_RETURN_IF_ERROR(addRaggedCalls(pool, grids[g], counts, all, curve));
      curve.end = all.calls.size();
      all.curves.push_back(std::move(curve));
    }
  return {};
}

std::string skewNote(const double *equal, const double *skewed, size_t calls) {
  double sum = 0;
  for (size_t i = 0; i < calls; ++i)
    sum += std::log(skewed[i] / equal[i]);
  char text[128];
  std::snprintf(text, sizeof text, "equal rows for each expert; as many rows, skewed, take %.2f times as long",
                std::exp(sum / static_cast<double>(calls)));
  return text;
}

/// Computes the curves from the seconds of all calls.
void fillCurves(const Measurements &all, const std::vector<double> &seconds, std::vector<CurveGrid> &grids,
                Rate &rate) {
  for (const CurveCalls &calls : all.curves)
    for (size_t i = calls.first; i < calls.end && !calls.isSkewed; ++i)
      rate.flopsPerSecond = std::max(rate.flopsPerSecond, all.flops[i] / seconds[i]);
  for (const CurveCalls &calls : all.curves) {
    Curve &curve = grids[calls.grid].curve;
    if (calls.isSkewed) {
      const CurveCalls &equal = all.curves[calls.grid];
      curve.note = skewNote(&seconds[equal.first], &seconds[calls.first], calls.end - calls.first);
      continue;
    }
    for (size_t call : calls.points)
      curve.efficiency.push_back(all.flops[call] / seconds[call] / rate.flopsPerSecond);
  }
  for (CurveGrid &grid : grids)
    rate.curves.push_back(std::move(grid.curve));
}

} // namespace

Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate) {
  std::vector<CurveGrid> grids = settings.isDevice() ? deviceGrids(settings.device.productSize) : hostGrids();
  for (CurveGrid &grid : grids)
    for (std::vector<int64_t> *axis : {&grid.curve.rows, &grid.curve.columns, &grid.curve.depth, &grid.curve.groups})
      if (settings.quick)
        thin(*axis);
  RaggedCounts counts(pool.bench());
  Measurements all;
  MOERT_RETURN_IF_ERROR(addAll(pool, grids, counts, all));
  pool.setReach(pool.bench().reach.cold);
  rate.dtype = dtypeName(pool.type());
  std::vector<double> seconds;
  MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), all.calls, settings.quick ? 2 : 5, seconds, settings.progress,
                                       "products of " + rate.dtype));
  fillCurves(all, seconds, grids, rate);
  return {};
}

} // namespace moert::calibrate
