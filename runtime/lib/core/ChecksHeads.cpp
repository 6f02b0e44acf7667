//===- ChecksHeads.cpp - operands of heads, attention and dropout ---------===//

#include "core/Checker.h"
#include "core/Checks.h"
#include "core/Shapes.h"

#include <algorithm>

namespace moert {
namespace {

void checkHeads(Checker &check, const char *ownName, View own, const char *sharedName, View shared, const char *allName,
                View all) {
  check.floating(allName, all).rank(allName, all, 2, 2).rank(ownName, own, 2, 2).rank(sharedName, shared, 2, 2);
  check.shape(ownName, own, all.dtype, {all.dims[0], own.dims[1]});
  check.shape(sharedName, shared, all.dtype, {all.dims[0], shared.dims[1]});
  check.that(HeadShape(own, shared, all).heads > 0, [&] {
    return joined("expected '", allName, "' of heads with columns of '", ownName, "' ", shapeText(own),
                  " and with all of '", sharedName, "' ", shapeText(shared), " but got ", shapeText(all));
  });
}

/// table [buckets,H] and bias [H,L,Lk] fit each other.
void checkRelative(Checker &check, const char *tableName, View table, const char *biasName, View bias,
                   bool bidirectional, int64_t maxDistance) {
  check.floating(tableName, table).rank(tableName, table, 2, 2).rank(biasName, bias, 3, 3);
  check.shape(biasName, bias, table.dtype, {table.dims[1], bias.dims[1], bias.dims[2]});
  const int64_t exact = table.dims[0] / (bidirectional ? 4 : 2);
  check.that(exact >= 1 && table.dims[0] % (bidirectional ? 2 : 1) == 0, [&] {
    return joined("expected '", tableName, "' of ", bidirectional ? "an even number of 4" : "2",
                  " or more rows but got ", shapeText(table));
  });
  check.that(maxDistance > exact,
             [&] { return joined("expected 'max_distance' above ", exact, " but got ", maxDistance); });
}

void checkOptions(Checker &check, const AttentionOptions &options) {
  auto atLeast = [&](const char *name, int64_t value, int64_t least) {
    check.that(value >= least, [&] { return joined("expected '", name, "' of ", least, " or more but got ", value); });
  };
  atLeast("q_length", options.qLength, 1);
  atLeast("k_length", options.kLength, 1);
  atLeast("heads", options.heads, 1);
  atLeast("k_heads", options.kHeads, 1);
  atLeast("window", options.window, 0);
  check.part(options.part).part(options.rows, "row_parts", "row_stride");
  check.that(options.part.parts * options.heads % std::max<int64_t>(options.kHeads, 1) == 0, [&] {
    return joined("expected 'k_heads' to divide ", options.part.parts * options.heads, " heads but got ",
                  options.kHeads);
  });
  check.that(options.dropout >= 0 && options.dropout < 1,
             [&] { return joined("expected 'dropout' from 0 to below 1 but got ", options.dropout); });
}

/// What all attention kernels read.
AttentionShape checkInputs(Checker &check, const AttentionInputs &inputs, const AttentionOptions &options) {
  checkOptions(check, options);
  const View &q = inputs.q, &k = inputs.k, &v = inputs.v;
  check.floating("q", q).rank("q", q, 2, 2).rank("k", k, 2, 2).rank("v", v, 2, 2);
  if (!check.ok())
    return {};
  check.that(q.dims[0] % options.qLength == 0 && q.dims[1] % options.heads == 0 && q.dims[1] > 0, [&] {
    return joined("expected 'q' of sequences of ", options.qLength, " rows and of ", options.heads, " heads but got ",
                  shapeText(q));
  });
  const AttentionShape shape(inputs, options);
  const int64_t rows = shape.sequences * shape.keys;
  check.shape("k", k, q.dtype, {rows, shape.keyHeads * shape.width});
  check.that(v.dims[1] % shape.keyHeads == 0,
             [&] { return joined("expected 'v' of ", shape.keyHeads, " heads but got ", shapeText(v)); });
  check.shape("v", v, q.dtype, {rows, v.dims[1]});
  if (inputs.bias)
    check.shape("bias", inputs.bias, q.dtype, {shape.heads, shape.queries, shape.keys});
  if (inputs.sinks)
    check.shape("sinks", inputs.sinks, q.dtype, {shape.heads});
  if (inputs.step || options.dropout > 0)
    check.shape("step", inputs.step, MOERT_I32, {});
  return shape;
}

/// Likewise, and the result or its gradient, by the name that it has, and the logarithms of the sums.
AttentionShape checkAttended(Checker &check, const AttentionInputs &inputs, const char *name, View attended, View lse,
                             const AttentionOptions &options) {
  const AttentionShape shape = checkInputs(check, inputs, options);
  const int64_t rows = shape.sequences * shape.queries;
  check.shape(name, attended, inputs.q.dtype, {rows, shape.heads * shape.valueWidth});
  check.accumulator("lse", lse, inputs.q, {rows, shape.heads});
  return shape;
}

} // namespace

Status checkRotary(View x, View out, const RotaryOptions &options) {
  Checker check(Kind::Rotary);
  check.floating("x", x).rank("x", x, 2, 2).like("out", out, x);
  check.that(options.period >= 1, [&] { return joined("expected 'period' of 1 or more but got ", options.period); });
  check.that(options.headDim >= 1 && x.dims[1] % options.headDim == 0, [&] {
    return joined("expected the columns of 'x' to be a multiple of ", options.headDim, " but got ", shapeText(x));
  });
  check.that(options.rotaryDim >= 0 && options.rotaryDim % 2 == 0 && options.begin >= 0 &&
                 options.begin <= options.headDim - options.rotaryDim,
             [&] {
               return joined("expected an even number of rotated columns within the ", options.headDim,
                             " of a head but got ", options.rotaryDim, " from ", options.begin, " on");
             });
  check.that(options.direction == 1 || options.direction == -1,
             [&] { return joined("expected 'direction' to be 1 or -1 but got ", options.direction); });
  check.that(options.base > 0, [&] { return joined("expected 'base' above 0 but got ", options.base); });
  check.that(options.factor == 1 || (options.factor > 0 && options.high > options.low), [&] {
    return joined("expected 'factor' above 0 and 'high' above 'low' but got ", options.factor, ", ", options.high,
                  " and ", options.low);
  });
  return check.take();
}

Status checkAppendToHeads(View x, View shared, View out) {
  Checker check(Kind::AppendToHeads);
  checkHeads(check, "x", x, "shared", shared, "out", out);
  return check.take();
}

Status checkAppendToHeadsGrad(View grads, View gradX, View gradShared) {
  Checker check(Kind::AppendToHeadsGrad);
  checkHeads(check, "grad_x", gradX, "grad_shared", gradShared, "grads", grads);
  return check.take();
}

Status checkAttention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) {
  Checker check(Kind::Attention);
  checkAttended(check, inputs, "out", out, lse, options);
  return check.take();
}

Status checkAttentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                          View gradV, const AttentionOptions &options) {
  Checker check(Kind::AttentionGrad);
  checkAttended(check, inputs, "attended", attended, lse, options);
  check.like("grads", grads, attended).like("grad_q", gradQ, inputs.q);
  return check.like("grad_k", gradK, inputs.k).like("grad_v", gradV, inputs.v).take();
}

Status checkAttentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                              const AttentionOptions &options) {
  Checker check(Kind::AttentionBiasGrad);
  const AttentionShape shape = checkAttended(check, inputs, "attended", attended, lse, options);
  check.like("grads", grads, attended);
  return check.shape("out", out, inputs.q.dtype, {shape.heads, shape.queries, shape.keys}).take();
}

Status checkAttentionSinksGrad(View sinks, View lse, View attended, View grads, View out) {
  Checker check(Kind::AttentionSinksGrad);
  check.floating("sinks", sinks).rank("sinks", sinks, 1, 1).rank("lse", lse, 2, 2).rank("attended", attended, 2, 2);
  const int64_t heads = sinks.dims[0], rows = lse.dims[0];
  check.accumulator("lse", lse, sinks, {rows, heads});
  check.that(heads >= 1 && attended.dims[1] % heads == 0,
             [&] { return joined("expected 'attended' of ", heads, " heads but got ", shapeText(attended)); });
  check.shape("attended", attended, sinks.dtype, {rows, attended.dims[1]}).like("grads", grads, attended);
  return check.like("out", out, sinks).take();
}

Status checkRelativeBias(View table, View out, bool bidirectional, int64_t maxDistance) {
  Checker check(Kind::RelativeBias);
  checkRelative(check, "table", table, "out", out, bidirectional, maxDistance);
  return check.take();
}

Status checkRelativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance) {
  Checker check(Kind::RelativeBiasGrad);
  checkRelative(check, "out", out, "grads", grads, bidirectional, maxDistance);
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

Status checkDropout(View x, View step, View out, int64_t, Part rows, Part columns, double p) {
  Checker check(Kind::Dropout);
  check.floating("x", x).rank("x", x, 2, 2).shape("step", step, MOERT_I32, {}).like("out", out, x);
  check.part(rows, "row_parts", "row_stride").part(columns, "column_parts", "column_stride");
  return check.that(p >= 0 && p < 1, [&] { return joined("expected 'p' from 0 to below 1 but got ", p); }).take();
}

} // namespace moert
