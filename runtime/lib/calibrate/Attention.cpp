//===- Attention.cpp - attention over lengths and heads -------------------===//

#include "calibrate/Calibrate.h"
#include "core/Attributes.h"

#include <algorithm>
#include <cmath>

namespace moert::calibrate {
namespace {

/// Causal attention in one sequence.
struct Shape {
  bool isBackward = false;
  int64_t headColumns = 0, length = 0, heads = 0;

  int64_t products() const { return isBackward ? 5 : 2; }
  int64_t columns() const { return heads * headColumns; }
  /// Number of operations; a query sees half of the keys.
  double flops() const {
    return static_cast<double>(length) * static_cast<double>(length) * static_cast<double>(products()) *
           static_cast<double>(columns());
  }
  /// Bytes of its largest operands: queries, keys and values, and in the backward also the result and its gradient.
  int64_t bytes(int32_t dtype) const {
    return (isBackward ? 5 : 3) * length * columns() * static_cast<int64_t>(dtypeSize(dtype));
  }
};

Call makeAttention(Pool &pool, const Shape &shape) {
  pool.beginCall();
  auto in = [&] { return pool.input({shape.length, shape.columns()}); };
  auto out = [&] { return pool.output({shape.length, shape.columns()}); };
  const std::vector<int64_t> perHead = {shape.length, shape.heads};
  const View none;
  Call call = shape.isBackward
                  ? callOf(Kind::AttentionGrad, {in(), in(), in(), none, none, none, in(), pool.wideInput(perHead),
                                                 in(), out(), out(), out()})
                  : callOf(Kind::Attention, {in(), in(), in(), none, none, none, out(), pool.wideOutput(perHead)});
  setCausal(call, shape.length, shape.heads, shape.headColumns);
  return call;
}

/// Measured sizes of a curve. If there is no memory for the operands of a point, it takes the call of fewer heads.
struct AttentionCalls {
  AttentionCurve curve;
  std::vector<size_t> points; ///< index of the call of each value
};

} // namespace

void setCausal(Call &call, int64_t length, int64_t heads, int64_t headColumns) {
  attributes::Attention{.qLength = length,
                        .kLength = length,
                        .heads = heads,
                        .kHeads = heads,
                        .parts = 1,
                        .stride = 1,
                        .causal = 1,
                        .rowParts = 1,
                        .rowStride = 1,
                        .cutParts = 1,
                        .cutStride = 1,
                        .keyShift = -1,
                        .scale = 1 / std::sqrt(static_cast<double>(headColumns))}
      .set(call);
}

Status calibrateAttention(Pool &pool, const Settings &settings, const Rate &rate, std::vector<AttentionCurve> &curves) {
  std::vector<int64_t> lengths = {32, 128, 512, 2048, 8192}, heads = {8, 32, 128};
  while (lengths.size() > 1 && lengths.back() > settings.device.productSize)
    lengths.pop_back();
  if (settings.quick)
    heads = {8, 32};
  std::vector<MakeCall> calls;
  std::vector<double> flops;
  std::vector<AttentionCalls> all;
  for (int64_t headColumns : {64, 128})
    for (bool isBackward : {false, true}) {
      AttentionCalls &one = all.emplace_back();
      one.curve = {rate.dtype, headColumns, Shape{isBackward}.products(), lengths, heads, {}};
      for (int64_t length : lengths)
        for (int64_t count : heads) {
          const Shape shape{isBackward, headColumns, length, count};
          if (count == heads.front() || shape.bytes(pool.type()) <= pool.bench().reach.call) {
            flops.push_back(shape.flops());
            calls.push_back([&pool, shape] { return makeAttention(pool, shape); });
          }
          one.points.push_back(calls.size() - 1);
        }
    }
  pool.setReach(pool.bench().reach.cold);
  std::vector<double> seconds;
  MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), calls, settings.quick ? 2 : 5, seconds, settings.progress,
                                       "attention of " + rate.dtype));
  for (AttentionCalls &one : all) {
    for (size_t call : one.points)
      // A profile has no fractions above 1, but the clock may report that attention is faster than the fastest product.
      one.curve.efficiency.push_back(std::min(1.0, flops[call] / seconds[call] / rate.flopsPerSecond));
    curves.push_back(std::move(one.curve));
  }
  return {};
}

} // namespace moert::calibrate
