//===- Products.cpp - matrix products over a grid of shapes ---------------===//
//
// Libraries treat the ways in which operands are transposed differently, and slow down where the rows of an operand are
// a multiple of a page apart (columns that are multiples of large powers of two): such shapes have curves of their own.
// A device is only busy with all groups of a grouped product at once: there these have theirs, and so do those of
// experts whose rows vary, which other kernels compute.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/Ragged.h"
#include "core/Attributes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace moert::calibrate {
namespace {

struct CurveGrid {
  Curve curve;
  Kind kind = Kind::Matmul;
  bool transposeA = false; ///< of Kind::Matmul
  bool transposeB = false; ///< of Kind::Matmul and of ragged products
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
  const std::vector<int64_t> experts = upTo(most, {1, 8, 32, 64, 128, 256, 512, 1024, 2048});
  for (bool transpose : {false, true}) {
    CurveGrid &grid = grids.emplace_back();
    grid.kind = Kind::GroupedMatmul;
    grid.transposeB = transpose;
    grid.curve = {{{"grouped_matmul", {transpose}}}, 1, experts, wide, wide, {}, true};
  }
  CurveGrid &gradients = grids.emplace_back();
  gradients.kind = Kind::GroupedMatmulWgrad;
  gradients.curve = {{{"grouped_matmul_wgrad", {}}}, 1, wide, wide, experts, {}, true};
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

/// A product of experts at a point of a ragged curve.
RaggedShape shapeAt(const CurveGrid &grid, int64_t m, int64_t n, int64_t k) {
  if (grid.kind == Kind::GroupedMatmulWgrad)
    return {true, false, kGroups, k, n, m};
  return {false, grid.transposeB, kGroups, m, n, k};
}

/// What is measured, curve by curve in the order of their values; the ragged ones again at the end, skewed.
struct Measurements {
  std::vector<MakeCall> calls;
  std::vector<double> flops; ///< of a call
};

/// Appends a call for each point of the curve; where it is ragged with counts, equal or skewed ones.
Status addCalls(Pool &pool, const CurveGrid &grid, RaggedCounts &counts, bool isSkewed, Measurements &all) {
  const double groups = grid.kind == Kind::Matmul ? 1 : kGroups;
  for (int64_t m : grid.curve.rows)
    for (int64_t n : grid.curve.columns)
      for (int64_t k : grid.curve.depth) {
        all.flops.push_back(2 * groups * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
        if (!grid.curve.isRagged) {
          all.calls.push_back([&pool, &grid, m, n, k] { return makeProduct(pool, grid, m, n, k); });
          continue;
        }
        View view;
        const RaggedShape shape = shapeAt(grid, m, n, k);
        if (Status status = counts.find(shape.experts, shape.rows, isSkewed, view); !status.ok())
          return status;
        all.calls.push_back([&pool, shape, view] { return makeRagged(pool, shape, view); });
      }
  return {};
}

Status addAll(Pool &pool, const std::vector<CurveGrid> &grids, RaggedCounts &counts, Measurements &all) {
  for (bool isSkewed : {false, true})
    for (const CurveGrid &grid : grids)
      if (!isSkewed || grid.curve.isRagged)
        if (Status status = addCalls(pool, grid, counts, isSkewed, all); !status.ok())
          return status;
  return {};
}

size_t pointsOf(const Curve &curve) { return curve.rows.size() * curve.columns.size() * curve.depth.size(); }

std::string skewNote(const double *equal, const double *skewed, size_t points) {
  double sum = 0;
  for (size_t i = 0; i < points; ++i)
    sum += std::log(skewed[i] / equal[i]);
  char text[128];
  std::snprintf(text, sizeof text, "equal rows for each expert; as many rows, skewed, take %.2f times as long",
                std::exp(sum / static_cast<double>(points)));
  return text;
}

} // namespace

Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate) {
  std::vector<CurveGrid> grids = settings.isDevice() ? deviceGrids(settings.device.productSize) : hostGrids();
  for (CurveGrid &grid : grids)
    for (std::vector<int64_t> *axis : {&grid.curve.rows, &grid.curve.columns, &grid.curve.depth})
      if (settings.quick)
        thin(*axis);
  RaggedCounts counts(pool.bench());
  Measurements all;
  if (Status status = addAll(pool, grids, counts, all); !status.ok())
    return status;
  const int passes = settings.quick ? 2 : 5;
  pool.setReach(pool.bench().reach.cold);
  rate.dtype = dtypeName(pool.type());
  Progress progress(settings.progress, "products of " + rate.dtype, all.calls.size() * static_cast<size_t>(passes));
  std::vector<double> seconds;
  if (Status status = measureKernels(pool.bench(), all.calls, passes, progress, seconds); !status.ok())
    return status;
  size_t skewed = 0, next = 0;
  for (const CurveGrid &grid : grids)
    skewed += pointsOf(grid.curve);
  for (size_t i = 0; i < skewed; ++i)
    rate.flopsPerSecond = std::max(rate.flopsPerSecond, all.flops[i] / seconds[i]);
  for (CurveGrid &grid : grids) {
    Curve &curve = rate.curves.emplace_back(std::move(grid.curve));
    const size_t first = next, points = pointsOf(curve);
    for (; next < first + points; ++next)
      curve.efficiency.push_back(all.flops[next] / seconds[next] / rate.flopsPerSecond);
    if (!curve.isRagged)
      continue;
    curve.note = skewNote(&seconds[first], &seconds[skewed], points);
    skewed += points;
  }
  return {};
}

} // namespace moert::calibrate
