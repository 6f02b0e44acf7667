//===- ChecksHeads.cpp - operands of heads, attention and dropout ---------===//

#include "core/Checker.h"
#include "core/Checks.h"
#include "core/Shapes.h"

#include <algorithm>

namespace moert {
namespace {

void checkHeads(Checker &check, const char *ownName, View own, const char *sharedName, View shared, const char *allName,
                View all) {
  check.that(HeadShape(own, shared, all).heads > 0, "expected '", allName, "' of heads with columns of '", ownName,
             "' ", own, " and with all of '", sharedName, "' ", shared, " but got ", all);
}

/// Checks that table [buckets,H] has enough buckets.
void checkRelative(Checker &check, const char *tableName, View table, bool bidirectional, int64_t maxDistance) {
  const int64_t exact = table.dims[0] / (bidirectional ? 4 : 2);
  check.that(exact >= 1, "expected '", tableName, "' of ", bidirectional ? 4 : 2, " or more rows but got ", table);
  check.that(maxDistance > exact, "expected 'max_distance' above ", exact, " but got ", maxDistance);
}

/// Checks that a rank can have `rows` rows of a sequence; with `zigzag` they are two parts of one size.
void checkCut(Checker &check, int64_t parts, int64_t stride, bool zigzag, int64_t rows) {
  check.that(parts >= 1 && stride >= 1, "expected parts of sequences, and their stride, of 1 or more but got ", parts,
             " and ", stride);
  check.that(!zigzag || rows % 2 == 0, "expected an even number of rows of a sequence with 'zigzag' but got ", rows);
}

void checkOrder(Checker &check, const SequenceOrder &order) {
  check.that(order.sequences >= 1 && order.length >= 1, "expected 'sequences' and 'length' of 1 or more but got ",
             order.sequences, " and ", order.length);
  checkCut(check, order.parts, 1, order.zigzag, order.length);
}

void checkOptions(Checker &check, const AttentionOptions &options) {
  auto atLeast = [&](const char *name, int64_t value, int64_t least) {
    check.that(value >= least, "expected '", name, "' of ", least, " or more but got ", value);
  };
  atLeast("q_length", options.qLength, 1);
  atLeast("k_length", options.kLength, 1);
  atLeast("heads", options.heads, 1);
  atLeast("k_heads", options.kHeads, 1);
  atLeast("window", options.window, 0);
  atLeast("block", options.block, 0);
  atLeast("key_shift", options.keyShift, -1);
  checkCut(check, options.cut.parts, options.cut.stride, options.cut.zigzag, options.qLength);
  check.part(options.part).part(options.rows, "row_parts", "row_stride");
  check.that(options.part.parts * options.heads % std::max<int64_t>(options.kHeads, 1) == 0,
             "expected 'k_heads' to divide ", options.part.parts * options.heads, " heads but got ", options.kHeads);
  check.that(options.dropout >= 0 && options.dropout < 1, "expected 'dropout' from 0 to below 1 but got ",
             options.dropout);
}

/// Checks the inputs of all attention kernels.
AttentionShape checkInputs(Checker &check, const AttentionInputs &inputs, const AttentionOptions &options) {
  checkOptions(check, options);
  const View &q = inputs.q, &k = inputs.k, &v = inputs.v;
  if (!check.ok())
    return {};
  check.that(q.dims[0] % options.qLength == 0 && q.dims[1] % options.heads == 0 && q.dims[1] > 0,
             "expected 'q' of sequences of ", options.qLength, " rows and of ", options.heads, " heads but got ", q);
  const AttentionShape shape(inputs, options);
  const int64_t rows = shape.sequences * shape.keys;
  check.shape("k", k, {rows, shape.keyHeads * shape.width});
  check.that(v.dims[1] % shape.keyHeads == 0, "expected 'v' of ", shape.keyHeads, " heads but got ", v);
  check.shape("v", v, {rows, v.dims[1]});
  if (inputs.bias)
    check.shape("bias", inputs.bias, {shape.heads, shape.allQueries, shape.keys});
  if (inputs.sinks)
    check.shape("sinks", inputs.sinks, {shape.heads});
  if (options.dropout > 0)
    check.valid("step", inputs.step);
  check.that(options.keyShift < 0 || (!inputs.bias && options.dropout == 0),
             "expected no bias and no dropout with 'key_shift'");
  return shape;
}

/// Checks also the result or its gradient, by its name, and the logarithms of the sums.
AttentionShape checkAttended(Checker &check, const AttentionInputs &inputs, const char *name, View attended, View lse,
                             const AttentionOptions &options) {
  const AttentionShape shape = checkInputs(check, inputs, options);
  const int64_t rows = shape.sequences * shape.queries;
  check.shape(name, attended, {rows, shape.heads * shape.valueWidth});
  check.shape("lse", lse, {rows, shape.heads});
  return shape;
}

} // namespace

void checkRestOfJoinSequences(Checker &check, View x, View, SequenceOrder order, bool) {
  checkOrder(check, order);
  if (!check.ok())
    return;
  const int64_t set = order.parts * order.sequences * order.length;
  check.that(x.dims[0] % set == 0, "expected 'x' of a multiple of ", order.parts, " parts of ", order.sequences,
             " sequences of ", order.length, " rows but got ", x);
}

void checkRestOfRotary(Checker &check, View x, View, const RotaryOptions &options) {
  checkCut(check, options.cut.parts, options.cut.stride, options.cut.zigzag, options.period);
  check.that(options.period >= 1, "expected 'period' of 1 or more but got ", options.period);
  check.that(options.headDim >= 1 && x.dims[1] % options.headDim == 0,
             "expected the columns of 'x' to be a multiple of ", options.headDim, " but got ", x);
  check.that(options.rotaryDim >= 0 && options.rotaryDim % 2 == 0 && options.begin >= 0 &&
                 options.begin <= options.headDim - options.rotaryDim,
             "expected an even number of rotated columns within the ", options.headDim, " of a head but got ",
             options.rotaryDim, " from ", options.begin, " on");
  check.that(options.direction >= -1 && options.direction <= 1, "expected 'direction' to be 1, 0 or -1 but got ",
             options.direction);
  check.that(options.base > 0, "expected 'base' above 0 but got ", options.base);
  const bool hasTurns = options.reach > 0;
  const double first = hasTurns ? options.high : options.low, last = hasTurns ? options.low : options.high;
  check.that(options.factor == 1 || (options.factor > 0 && last > first), "expected 'factor' above 0 and ",
             hasTurns ? "'low' above 'high'" : "'high' above 'low'", " but got ", options.factor, ", ", last, " and ",
             first);
  check.that(options.temperature == 0 || options.span > 0, "expected 'span' above 0 but got ", options.span);
}

void checkRestOfAppendToHeads(Checker &check, View x, View shared, View out) {
  checkHeads(check, "x", x, "shared", shared, "out", out);
}

void checkRestOfAppendToHeadsGrad(Checker &check, View grads, View gradX, View gradShared) {
  checkHeads(check, "grad_x", gradX, "grad_shared", gradShared, "grads", grads);
}

void checkRestOfAttention(Checker &check, const AttentionInputs &inputs, View out, View lse,
                          const AttentionOptions &options) {
  checkAttended(check, inputs, "out", out, lse, options);
}

void checkRestOfAttentionGrad(Checker &check, const AttentionInputs &inputs, View attended, View lse, View, View, View,
                              View, const AttentionOptions &options) {
  checkAttended(check, inputs, "attended", attended, lse, options);
}

void checkRestOfAttentionBiasGrad(Checker &check, const AttentionInputs &inputs, View attended, View lse, View,
                                  View out, const AttentionOptions &options) {
  const AttentionShape shape = checkAttended(check, inputs, "attended", attended, lse, options);
  check.shape("out", out, {shape.heads, shape.allQueries, shape.keys});
}

void checkRestOfMergeAttention(Checker &check, View a, View lseA, View, View, View, View) {
  const int64_t heads = lseA.dims[1];
  check.that(heads >= 1 && a.dims[1] % heads == 0, "expected 'a' of ", heads, " heads but got ", a);
}

void checkRestOfAttentionSinksGrad(Checker &check, View sinks, View, View attended, View, View) {
  const int64_t heads = sinks.dims[0];
  check.that(heads >= 1 && attended.dims[1] % heads == 0, "expected 'attended' of ", heads, " heads but got ",
             attended);
}

void checkRestOfRelativeBias(Checker &check, View table, View, bool bidirectional, int64_t maxDistance) {
  checkRelative(check, "table", table, bidirectional, maxDistance);
}

void checkRestOfRelativeBiasGrad(Checker &check, View, View, View out, bool bidirectional, int64_t maxDistance) {
  checkRelative(check, "out", out, bidirectional, maxDistance);
}

void checkRestOfDropout(Checker &check, View, View, View, int64_t, Part rows, Part columns, Noise noise,
                        SequenceOrder order) {
  checkOrder(check, order);
  check.part(rows, "row_parts", "row_stride").part(columns, "column_parts", "column_stride");
  check.that(noise.p >= 0 && noise.p < 1, "expected 'p' from 0 to below 1 but got ", noise.p);
}

} // namespace moert
