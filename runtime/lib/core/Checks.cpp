//===- Checks.cpp - operands of dense compute and of experts --------------===//

#include "core/Checks.h"
#include "core/Checker.h"
#include "core/Shapes.h"

namespace moert {
namespace {

void checkDim(Checker &check, int64_t dim, int64_t rank) {
  check.that(dim >= 0 && dim < rank, [&] { return joined("expected 'dim' from 0 to ", rank - 1, " but got ", dim); });
}

/// `many` is `one` with each of `blocks` blocks along `dim` so many times.
void checkCopies(Checker &check, const char *oneName, View one, const char *manyName, View many, int64_t dim,
                 int64_t blocks) {
  check.valid(oneName, one).valid(manyName, many);
  checkDim(check, dim, one.rank);
  check.that(blocks >= 1, [&] { return joined("expected 'blocks' of 1 or more but got ", blocks); });
  if (!check.ok())
    return;
  check.that(one.dims[dim] % blocks == 0, [&] {
    return joined("expected dimension ", dim, " of '", oneName, "' to be a multiple of ", blocks, " but got ",
                  shapeText(one));
  });
  View expected = one;
  expected.dims[dim] *= copiesAlong(one, many, dim);
  check.like(manyName, many, expected);
}

void checkCounts(Checker &check, View counts) {
  check.valid("counts", counts).rank("counts", counts, 2, 2).that(counts.dtype == MOERT_I32, [&] {
    return joined("expected 'counts' to be i32 but got ", shapeText(counts));
  });
}

/// The rows of each expert: by `counts`, or in the capacity form.
ExpertShape checkExpertRows(Checker &check, View rows, View counts) {
  check.floating("rows", rows).rank("rows", rows, counts ? 2 : 3, counts ? 2 : 3);
  if (counts)
    checkCounts(check, counts);
  return ExpertShape(rows, counts);
}

/// `view` is rows of `width` columns for the same experts.
void checkAlike(Checker &check, const ExpertShape &shape, const char *name, View view, int32_t dtype, int64_t width) {
  if (shape.isRagged)
    check.shape(name, view, dtype, {shape.capacity, width});
  else
    check.shape(name, view, dtype, {shape.experts, shape.capacity, width});
}

/// Rows and bias (or its gradient) in the three forms of moert_bias_add.
void checkBias(Checker &check, const char *rowsName, View rows, const char *biasName, View bias, View counts) {
  check.floating(rowsName, rows).rank(rowsName, rows, 2, counts ? 2 : 3);
  if (counts)
    checkCounts(check, counts);
  const int32_t dtype = typeBeside(rows.dtype, bias);
  if (!counts && rows.rank == 2)
    check.shape(biasName, bias, dtype, {rows.dims[1]});
  else
    check.shape(biasName, bias, dtype, {counts ? counts.dims[1] : rows.dims[0], columnsOf(rows)});
}

/// `half` is shaped as the activation of `in`.
void checkActivationOf(Checker &check, View in, View counts, const char *name, View half, int64_t kind) {
  check.that(kind >= MOERT_RELU && kind <= MOERT_GELU_TANH,
             [&] { return joined("expected 'kind' to be a moert_activation_kind but got ", kind); });
  check.floating("in", in).rank("in", in, counts ? 2 : 1, counts ? 2 : 4);
  if (!check.ok())
    return;
  check.that(!isGated(kind) || columnsOf(in) % 2 == 0,
             [&] { return joined("expected 'in' with an even number of columns but got ", shapeText(in)); });
  check.like(name, half, activationResult(in, kind));
  if (counts)
    checkCounts(check, counts);
}

} // namespace

// --- Dense compute -----------------------------------------------------------

Status checkMatmul(View a, View b, View c, bool transposeA, bool transposeB) {
  Checker check(Kind::Matmul);
  check.floating("a", a).rank("a", a, 2, 2).floating("b", b).rank("b", b, 2, 2);
  const int64_t m = a.dims[transposeA ? 1 : 0], k = a.dims[transposeA ? 0 : 1], n = b.dims[transposeB ? 0 : 1];
  if (transposeB)
    check.shape("b", b, a.dtype, {n, k});
  else
    check.shape("b", b, a.dtype, {k, n});
  return check.shape("c", c, a.dtype, {m, n}).take();
}

Status checkAdd(View a, View b, View out) {
  return Checker(Kind::Add).floating("a", a).like("b", b, a).like("out", out, a).take();
}

Status checkScale(View in, View out, double) {
  return Checker(Kind::Scale).floating("in", in).like("out", out, in).take();
}

Status checkCopy(View in, View out) {
  Checker check(Kind::Copy);
  check.valid("in", in).valid("out", out);
  return check
      .that(in.dtype == out.dtype && in.elements() == out.elements(),
            [&] {
              return joined("expected 'in' and 'out' of one type and number of elements but got ", shapeText(in),
                            " and ", shapeText(out));
            })
      .take();
}

Status checkRowScale(View rows, View factors, View out) {
  Checker check(Kind::RowScale);
  check.floating("rows", rows).rank("rows", rows, 2, 2);
  return check.accumulator("factors", factors, rows, {rows.dims[0], 1}).like("out", out, rows).take();
}

Status checkRowDot(View a, View b, View out) {
  Checker check(Kind::RowDot);
  return check.floating("a", a).rank("a", a, 2, 2).like("b", b, a).accumulator("out", out, a, {a.dims[0], 1}).take();
}

Status checkSlice(View in, View out, int64_t dim, int64_t index, int64_t size) {
  Checker check(Kind::Slice);
  check.valid("in", in);
  checkDim(check, dim, in.rank);
  check.that(size >= 1 && index >= 0 && index < size,
             [&] { return joined("expected 'index' below 'size' but got ", index, " of ", size); });
  if (!check.ok())
    return check.take();
  check.that(in.dims[dim] % size == 0, [&] {
    return joined("expected dimension ", dim, " of 'in' to be a multiple of ", size, " but got ", shapeText(in));
  });
  View part = in;
  part.dims[dim] /= size;
  return check.like("out", out, part).take();
}

Status checkDump(View in, View out, int64_t dim, int64_t blocks) {
  Checker check(Kind::Dump);
  checkCopies(check, "in", in, "out", out, dim, blocks);
  return check.take();
}

Status checkLocalReduce(View in, View out, int64_t dim, int64_t blocks) {
  Checker check(Kind::LocalReduce);
  check.floating("in", in);
  checkCopies(check, "out", out, "in", in, dim, blocks);
  return check.take();
}

// --- Experts -----------------------------------------------------------------

Status checkGroupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) {
  Checker check(Kind::GroupedMatmul);
  const ExpertShape shape = checkExpertRows(check, rows, counts);
  check.rank("weights", weights, 3, 3);
  const int64_t k = shape.columns, n = weights.dims[transposeWeights ? 1 : 2];
  if (transposeWeights)
    check.shape("weights", weights, rows.dtype, {shape.experts, n, k});
  else
    check.shape("weights", weights, rows.dtype, {shape.experts, k, n});
  checkAlike(check, shape, "out", out, rows.dtype, n);
  return check.take();
}

Status checkGroupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) {
  Checker check(Kind::GroupedMatmulWgrad);
  const ExpertShape shape = checkExpertRows(check, rows, counts);
  const int64_t n = columnsOf(grads);
  checkAlike(check, shape, "grads", grads, rows.dtype, n);
  check.shape("out", out, rows.dtype, {shape.experts, shape.columns, n});
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

Status checkBiasAdd(View rows, View bias, View counts, View out, double) {
  Checker check(Kind::BiasAdd);
  checkBias(check, "rows", rows, "bias", bias, counts);
  return check.like("out", out, rows).take();
}

Status checkBiasGrad(View grads, View counts, View addend, View out, double) {
  Checker check(Kind::BiasGrad);
  checkBias(check, "grads", grads, "out", out, counts);
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

Status checkActivation(View in, View counts, View out, int64_t kind) {
  Checker check(Kind::Activation);
  checkActivationOf(check, in, counts, "out", out, kind);
  return check.take();
}

Status checkActivationGrad(View in, View grad, View counts, View out, int64_t kind) {
  Checker check(Kind::ActivationGrad);
  checkActivationOf(check, in, counts, "grad", grad, kind);
  return check.like("out", out, in).take();
}

} // namespace moert
