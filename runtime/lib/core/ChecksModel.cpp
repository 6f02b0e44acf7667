//===- ChecksModel.cpp - operands of embeddings, norms, losses, optimizers ===//

#include "core/Checker.h"
#include "core/Checks.h"

#include <cmath>
#include <limits>

namespace moert {
namespace {

/// `indices` are i32 [count], into `part` of a value whose parts are of `size`.
void checkIndices(Checker &check, const char *name, View indices, int64_t count, Part part, int64_t size) {
  check.shape(name, indices, MOERT_I32, {count}).part(part);
  int64_t end = 0;
  check.that(!__builtin_mul_overflow(part.parts, size, &end),
             [&] { return joined("expected fewer than ", part.parts, " parts of ", size); });
}

/// x is rows of blocks of as many columns as `vector` has.
void checkBlocks(Checker &check, View x, const char *name, View vector, int64_t kind, double eps) {
  check.that(kind >= MOERT_LAYER_NORM && kind <= MOERT_NO_NORM,
             [&] { return joined("expected 'kind' to be a moert_norm_kind but got ", kind); });
  check.that(eps >= 0, [&] { return joined("expected 'eps' of 0 or more but got ", eps); });
  check.floating("x", x).rank("x", x, 2, 2).rank(name, vector, 1, 1);
  if (!check.ok())
    return;
  const int64_t count = vector.dims[0];
  check.shape(name, vector, x.dtype, {count});
  check.that(count >= 1 && x.dims[1] % count == 0, [&] {
    return joined("expected the columns of 'x' to be a multiple of those of '", name, "' but got ", shapeText(x),
                  " and ", shapeText(vector));
  });
}

void checkFactors(Checker &check, View param, View rate, View factor) {
  check.shape("rate", rate, typeBeside(param.dtype, rate), {});
  if (factor)
    check.shape("factor", factor, typeBeside(param.dtype, factor), {});
}

/// Gradients may be of 16 bits where parameters are f32.
void checkGrad(Checker &check, View param, View grad) {
  check.floating("param", param)
      .like("grad", grad, param, typeBeside(grad.dtype, param) == param.dtype ? grad.dtype : param.dtype);
}

} // namespace

// --- Tokens and their rows ---------------------------------------------------

Status checkPositions(View out, int64_t period) {
  Checker check(Kind::Positions);
  check.rank("out", out, 1, 1).shape("out", out, MOERT_I32, {columnsOf(out)});
  return check
      .that(period >= 1 && period <= std::numeric_limits<int32_t>::max(),
            [&] { return joined("expected 'period' of 1 or more but got ", period); })
      .take();
}

Status checkIndexAffine(View in, View out, int64_t, int64_t) {
  Checker check(Kind::IndexAffine);
  check.valid("in", in).that(in.dtype == MOERT_I32,
                             [&] { return joined("expected 'in' to be i32 but got ", shapeText(in)); });
  return check.like("out", out, in).take();
}

Status checkFill(View out, double value) {
  Checker check(Kind::Fill);
  check.valid("out", out);
  const bool isInteger = value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max() &&
                         value == std::trunc(value);
  return check
      .that(out.dtype != MOERT_I32 || isInteger, [&] { return joined("expected an i32 value but got ", value); })
      .take();
}

Status checkCast(View in, View out) {
  Checker check(Kind::Cast);
  check.floating("in", in).floating("out", out);
  bool same = in.rank == out.rank;
  for (int64_t i = 0; check.ok() && same && i < in.rank; ++i)
    same = in.dims[i] == out.dims[i];
  return check
      .that(same,
            [&] {
              return joined("expected 'in' and 'out' of one shape but got ", shapeText(in), " and ", shapeText(out));
            })
      .take();
}

Status checkEmbedding(View ids, View table, View out, Part part) {
  Checker check(Kind::Embedding);
  check.floating("table", table).rank("table", table, 2, 2).rank("ids", ids, 1, 1);
  const int64_t tokens = ids.dims[0];
  checkIndices(check, "ids", ids, tokens, part, table.dims[0]);
  return check.shape("out", out, table.dtype, {tokens, table.dims[1]}).take();
}

Status checkEmbeddingGrad(View ids, View grads, View addend, View out, Part part) {
  Checker check(Kind::EmbeddingGrad);
  check.floating("grads", grads).rank("grads", grads, 2, 2).rank("out", out, 2, 2);
  check.shape("out", out, grads.dtype, {out.dims[0], grads.dims[1]});
  checkIndices(check, "ids", ids, grads.dims[0], part, out.dims[0]);
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

// --- Norms -------------------------------------------------------------------

Status checkNorm(View x, View gamma, View beta, View out, int64_t kind, double eps) {
  Checker check(Kind::Norm);
  checkBlocks(check, x, "gamma", gamma, kind, eps);
  if (beta)
    check.like("beta", beta, gamma);
  return check.like("out", out, x).take();
}

Status checkNormGrad(View x, View gamma, View grads, View out, int64_t kind, double eps) {
  Checker check(Kind::NormGrad);
  checkBlocks(check, x, "gamma", gamma, kind, eps);
  return check.like("grads", grads, x).like("out", out, x).take();
}

Status checkNormWgrad(View x, View grads, View addend, View out, int64_t kind, double eps) {
  Checker check(Kind::NormWgrad);
  checkBlocks(check, x, "out", out, kind, eps);
  check.like("grads", grads, x);
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

Status checkInverseRoot(View in, View out, double, double) {
  return Checker(Kind::InverseRoot).floating("in", in).like("out", out, in).take();
}

Status checkInverseRootGrad(View root, View grads, View out, double) {
  Checker check(Kind::InverseRootGrad);
  return check.floating("root", root).like("grads", grads, root).like("out", out, root).take();
}

// --- Losses ------------------------------------------------------------------

Status checkRowLogsumexp(View x, View out) {
  Checker check(Kind::RowLogsumexp);
  return check.floating("x", x).rank("x", x, 2, 2).accumulator("out", out, x, {x.dims[0], 1}).take();
}

Status checkRowLogsumexpGrad(View x, View lse, View grads, View out) {
  Checker check(Kind::RowLogsumexpGrad);
  check.floating("x", x).rank("x", x, 2, 2).accumulator("lse", lse, x, {x.dims[0], 1});
  return check.accumulator("grads", grads, x, {x.dims[0], 1}).like("out", out, x).take();
}

Status checkPick(View x, View labels, View out, Part part) {
  Checker check(Kind::Pick);
  check.floating("x", x).rank("x", x, 2, 2);
  checkIndices(check, "labels", labels, x.dims[0], part, x.dims[1]);
  return check.accumulator("out", out, x, {x.dims[0], 1}).take();
}

Status checkPickGrad(View labels, View grads, View addend, View out, Part part) {
  Checker check(Kind::PickGrad);
  check.floating("out", out).rank("out", out, 2, 2).accumulator("grads", grads, out, {out.dims[0], 1});
  checkIndices(check, "labels", labels, out.dims[0], part, out.dims[1]);
  if (addend)
    check.like("addend", addend, out);
  return check.take();
}

Status checkLabelSum(View rows, View labels, View sum, View count) {
  Checker check(Kind::LabelSum);
  check.floating("rows", rows).rank("rows", rows, 2, 2).shape("rows", rows, rows.dtype, {rows.dims[0], 1});
  check.shape("labels", labels, MOERT_I32, {rows.dims[0]});
  return check.shape("sum", sum, rows.dtype, {}).shape("count", count, rows.dtype, {}).take();
}

Status checkLabelSumGrad(View labels, View grad, View out) {
  Checker check(Kind::LabelSumGrad);
  check.floating("out", out).rank("out", out, 2, 2).shape("out", out, out.dtype, {out.dims[0], 1});
  return check.shape("labels", labels, MOERT_I32, {out.dims[0]}).shape("grad", grad, out.dtype, {}).take();
}

Status checkDivide(View a, View b, View out) {
  Checker check(Kind::Divide);
  return check.floating("a", a).shape("a", a, a.dtype, {}).like("b", b, a).like("out", out, a).take();
}

// --- Optimizers --------------------------------------------------------------

Status checkSumSquares(View in, View out) {
  return Checker(Kind::SumSquares).floating("in", in).shape("out", out, typeBeside(in.dtype, out), {}).take();
}

Status checkClipFactor(View sumSquares, View out, double most) {
  Checker check(Kind::ClipFactor);
  check.floating("sum_squares", sumSquares).shape("sum_squares", sumSquares, sumSquares.dtype, {});
  check.like("out", out, sumSquares);
  return check.that(most >= 0, [&] { return joined("expected 'most' of 0 or more but got ", most); }).take();
}

Status checkSquareRoot(View in, View out) {
  return Checker(Kind::SquareRoot).floating("in", in).shape("in", in, in.dtype, {}).like("out", out, in).take();
}

Status checkSgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut, double,
                double) {
  Checker check(Kind::Sgd);
  checkGrad(check, param, grad);
  check.like("velocity", velocity, param, typeBeside(param.dtype, velocity));
  checkFactors(check, param, rate, factor);
  return check.like("param_out", paramOut, param).like("velocity_out", velocityOut, velocity).take();
}

Status checkAdam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
                 View firstOut, View secondOut, const AdamOptions &) {
  Checker check(Kind::Adam);
  checkGrad(check, param, grad);
  check.like("first", first, param, typeBeside(param.dtype, first)).like("second", second, first);
  checkFactors(check, param, rate, factor);
  check.shape("step", step, MOERT_I32, {}).like("param_out", paramOut, param);
  return check.like("first_out", firstOut, first).like("second_out", secondOut, second).take();
}

} // namespace moert
