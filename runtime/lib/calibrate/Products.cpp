//===- Products.cpp - matrix products over a grid of shapes ---------------===//
//
// Libraries treat the ways in which operands are transposed differently, and slow down where the rows of an operand are
// a multiple of a page apart (columns that are multiples of large powers of two): such shapes have curves of their own.
// A device is only busy with all groups of a grouped product at once: there these have theirs.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "core/Attributes.h"

#include <algorithm>

namespace moert::calibrate {
namespace {

struct CurveGrid {
  Curve curve;
  Kind kind = Kind::Matmul;
  bool transposeA = false, transposeB = false; ///< of Kind::Matmul
};

/// Of a grouped product: experts of a rank.
constexpr int64_t kGroups = 8;

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

std::vector<CurveGrid> hostGrids() {
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

/// Those that are at most `most`, or the first one.
std::vector<int64_t> upTo(int64_t most, std::vector<int64_t> sizes) {
  while (sizes.size() > 1 && sizes.back() > most)
    sizes.pop_back();
  return sizes;
}

/// Rows, columns and depth of dense products up to `most`; an expert has fewer.
std::vector<CurveGrid> deviceGrids(int64_t most) {
  std::vector<CurveGrid> grids(3);
  const std::vector<int64_t> sizes = upTo(most, {64, 256, 1024, 4096});
  grids[0].curve = {{}, 1, upTo(most, {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}), sizes, sizes, {}};
  const std::vector<int64_t> wide = upTo(most, {64, 512, 2048}), few = upTo(most, {1, 8, 16, 32, 64, 128, 256, 1024});
  grids[1].kind = Kind::GroupedMatmul;
  grids[1].curve = {{{"grouped_matmul", {}}}, 1, few, wide, wide, {}};
  grids[2].kind = Kind::GroupedMatmulWgrad;
  grids[2].curve = {{{"grouped_matmul_wgrad", {}}}, 1, wide, wide, few, {}};
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

Call makeDense(Pool &pool, const CurveGrid &grid, int64_t m, int64_t n, int64_t k) {
  Call call;
  call.kind = Kind::Matmul;
  call.viewCount = 3;
  attributes::Matmul{.transposeA = grid.transposeA, .transposeB = grid.transposeB}.set(call);
  call.views[operands::Matmul::a] = grid.transposeA ? pool.input({k, m}) : pool.input({m, k});
  call.views[operands::Matmul::b] = grid.transposeB ? pool.input({n, k}) : pool.input({k, n});
  call.views[operands::Matmul::c] = pool.output({m, n});
  return call;
}

/// Of full groups, which need no counts.
Call makeGrouped(Pool &pool, Kind kind, int64_t m, int64_t n, int64_t k) {
  Call call;
  call.kind = kind;
  if (kind == Kind::GroupedMatmul) {
    call.viewCount = 4;
    call.views = {pool.input({kGroups, m, k}), pool.input({kGroups, k, n}), View(), pool.output({kGroups, m, n})};
  } else {
    call.viewCount = 5;
    call.views = {pool.input({kGroups, k, m}), pool.input({kGroups, k, n}), View(), View(),
                  pool.output({kGroups, m, n})};
  }
  return call;
}

Call makeProduct(Pool &pool, const CurveGrid &grid, int64_t m, int64_t n, int64_t k) {
  pool.beginCall();
  return grid.kind == Kind::Matmul ? makeDense(pool, grid, m, n, k) : makeGrouped(pool, grid.kind, m, n, k);
}

/// Appends a call for each point of the curve, and its FLOPs.
void addCalls(Pool &pool, const CurveGrid &grid, std::vector<MakeCall> &calls, std::vector<double> &flops) {
  for (int64_t m : grid.curve.rows)
    for (int64_t n : grid.curve.columns)
      for (int64_t k : grid.curve.depth) {
        calls.push_back([&pool, &grid, m, n, k] { return makeProduct(pool, grid, m, n, k); });
        double products = grid.kind == Kind::Matmul ? 1 : kGroups;
        flops.push_back(2 * products * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
      }
}

} // namespace

Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate) {
  std::vector<CurveGrid> grids = settings.isDevice() ? deviceGrids(settings.device.productSize) : hostGrids();
  std::vector<MakeCall> calls;
  std::vector<double> flops, seconds;
  for (CurveGrid &grid : grids) {
    if (settings.quick)
      for (std::vector<int64_t> *axis : {&grid.curve.rows, &grid.curve.columns, &grid.curve.depth})
        thin(*axis);
    addCalls(pool, grid, calls, flops);
  }
  const int passes = settings.quick ? 2 : 5;
  pool.setReach(pool.bench().reach.cold);
  rate.dtype = dtypeName(pool.type());
  Progress progress(settings.progress, "products of " + rate.dtype, calls.size() * static_cast<size_t>(passes));
  if (Status status = measureKernels(pool.bench(), calls, passes, progress, seconds); !status.ok())
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
