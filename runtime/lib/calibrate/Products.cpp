//===- Products.cpp - matrix products over a grid of shapes ---------------===//
//
// Libraries treat the ways in which operands are transposed differently, and slow down where the rows of an operand are
// a multiple of a page apart (columns that are multiples of large powers of two): such shapes have curves of their own.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <algorithm>

namespace moert::calibrate {
namespace {

struct CurveGrid {
  Curve curve;
  bool transposeA = false, transposeB = false;
};

/// Dense where libraries change from one kernel to the next: an expert has few rows.
const std::vector<int64_t> kRows = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 384, 512, 1024};

/// Columns whose largest divisor of two is `multiple`, but for 1: any that no other curve has.
CurveGrid plainGrid(int64_t multiple, std::vector<int64_t> columns) {
  CurveGrid grid;
  grid.curve.calls = {{"matmul", {0, 0}}, {"grouped_matmul", {0}}};
  grid.curve.columnsMultiple = multiple;
  grid.curve.rows = kRows;
  grid.curve.columns = std::move(columns);
  grid.curve.depth = {64, 256, 1024};
  return grid;
}

/// Weight gradients, whose depth is an expert's rows.
CurveGrid gradientGrid(int64_t multiple, std::vector<int64_t> columns) {
  CurveGrid grid;
  grid.transposeA = true;
  grid.curve.calls = {{"matmul", {1, 0}}, {"grouped_matmul_wgrad", {}}};
  grid.curve.columnsMultiple = multiple;
  grid.curve.rows = {8, 64, 192, 352, 704, 1408};
  grid.curve.columns = std::move(columns);
  grid.curve.depth = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024};
  return grid;
}

std::vector<CurveGrid> fullGrids() {
  std::vector<CurveGrid> grids;
  // Second operands transposed; the curve for whatever the others do not name.
  CurveGrid &any = grids.emplace_back();
  any.transposeB = true;
  any.curve.rows = kRows;
  any.curve.columns = {1, 8, 32, 64, 128, 512, 1024, 2048};
  any.curve.depth = {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
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

/// Every second point of an axis of more than three, the last among them.
void thin(std::vector<int64_t> &axis) {
  if (axis.size() <= 3)
    return;
  std::vector<int64_t> kept;
  for (size_t i = (axis.size() + 1) % 2; i < axis.size(); i += 2)
    kept.push_back(axis[i]);
  axis = kept;
}

Call makeProduct(Pool &pool, const CurveGrid &grid, int64_t m, int64_t n, int64_t k) {
  pool.beginCall();
  Call call;
  call.kind = Kind::Matmul;
  call.viewCount = 3;
  call.ints = {grid.transposeA, grid.transposeB};
  call.views[0] = grid.transposeA ? pool.input({k, m}) : pool.input({m, k});
  call.views[1] = grid.transposeB ? pool.input({n, k}) : pool.input({k, n});
  call.views[2] = pool.output({m, n});
  return call;
}

/// Appends a call for each point of the curve, and its FLOPs.
void addCalls(Pool &pool, const CurveGrid &grid, std::vector<MakeCall> &calls, std::vector<double> &flops) {
  for (int64_t m : grid.curve.rows)
    for (int64_t n : grid.curve.columns)
      for (int64_t k : grid.curve.depth) {
        calls.push_back([&pool, &grid, m, n, k] { return makeProduct(pool, grid, m, n, k); });
        flops.push_back(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
      }
}

} // namespace

Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate) {
  std::vector<CurveGrid> grids = fullGrids();
  std::vector<MakeCall> calls;
  std::vector<double> flops, seconds;
  for (CurveGrid &grid : grids) {
    if (settings.quick)
      for (std::vector<int64_t> *axis : {&grid.curve.rows, &grid.curve.columns, &grid.curve.depth})
        thin(*axis);
    addCalls(pool, grid, calls, flops);
  }
  const int passes = settings.quick ? 2 : 5;
  pool.setReach(coldBytes());
  rate.dtype = dtypeName(pool.type());
  Progress progress(settings.progress, "products of " + rate.dtype, calls.size() * static_cast<size_t>(passes));
  if (Status status = measureKernels(calls, passes, progress, seconds); !status.ok())
    return status;
  for (size_t i = 0; i < calls.size(); ++i)
    rate.flopsPerSecond = std::max(rate.flopsPerSecond, flops[i] / seconds[i]);
  size_t next = 0;
  for (CurveGrid &grid : grids) {
    Curve &curve = rate.curves.emplace_back(std::move(grid.curve));
    for (size_t i = curve.rows.size() * curve.columns.size() * curve.depth.size(); i > 0; --i, ++next)
      curve.efficiency.push_back(flops[next] / seconds[next] / rate.flopsPerSecond);
  }
  return {};
}

} // namespace moert::calibrate
