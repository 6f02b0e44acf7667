//===- Checks.cpp - operands of dense compute and of experts --------------===//

#include "core/Checks.h"
#include "core/Checker.h"
#include "core/Shapes.h"

namespace moert {
namespace {

void checkDim(Checker &check, int64_t dim, int64_t rank) {
  check.that(dim >= 0 && dim < rank, "expected 'dim' from 0 to ", rank - 1, " but got ", dim);
}

/// Checks that `many` is `one` with each of `blocks` blocks along `dim` repeated.
void checkCopies(Checker &check, const char *oneName, View one, const char *manyName, View many, int64_t dim,
                 int64_t blocks) {
  checkDim(check, dim, one.rank);
  check.that(blocks >= 1, "expected 'blocks' of 1 or more but got ", blocks);
  if (!check.ok())
    return;
  check.that(one.dims[dim] % blocks == 0, "expected dimension ", dim, " of '", oneName, "' to be a multiple of ",
             blocks, " but got ", one);
  View expected = one;
  expected.dims[dim] *= copiesAlong(one, many, dim);
  check.like(manyName, many, expected);
}

/// Checks that the columns of `rows` are as many equal groups as `each` has columns.
void checkGroups(Checker &check, const char *eachName, View each, const char *name, View rows) {
  check.that(each.dims[1] > 0 && rows.dims[1] % each.dims[1] == 0, "expected '", eachName,
             "' with a number of columns that divides those of '", name, "' but got ", each, " and ", rows);
}

/// Checks rows and bias (or its gradient) in the three forms of moert_bias_add.
void checkBias(Checker &check, const char *rowsName, View rows, const char *biasName, View bias, View counts) {
  check.rank(rowsName, rows, 2, counts ? 2 : 3);
  if (!counts && rows.rank == 2)
    check.shape(biasName, bias, {rows.dims[1]});
  else
    check.shape(biasName, bias, {counts ? counts.dims[1] : rows.dims[0], columnsOf(rows)});
}

/// Checks that `half` has the shape of the activation of `in`.
void checkActivationOf(Checker &check, View in, const char *name, View half, ActivationForm form) {
  const int64_t kind = form.kind;
  check.that(form.alpha > 0 && form.limit > 0, "expected 'alpha' and 'limit' above 0 but got ", form.alpha, " and ",
             form.limit);
  check.that(kind >= MOERT_RELU && kind <= kLastActivation, "expected 'kind' to be a moert_activation_kind but got ",
             kind);
  check.that(!isGated(kind) || columnsOf(in) % 2 == 0, "expected 'in' with an even number of columns but got ", in);
  check.like(name, half, activationResult(in, kind));
}

} // namespace

// --- Dense compute -----------------------------------------------------------

void checkRestOfCopy(Checker &check, View in, View out) {
  check.that(in.elements() == out.elements(), "expected 'in' and 'out' of one number of elements but got ", in, " and ",
             out);
}

void checkRestOfRowScale(Checker &check, View rows, View factors, View) {
  checkGroups(check, "factors", factors, "rows", rows);
}

void checkRestOfRowDot(Checker &check, View a, View, View out) { checkGroups(check, "out", out, "a", a); }

void checkRestOfSlice(Checker &check, View in, View out, int64_t dim, int64_t index, int64_t size) {
  checkDim(check, dim, in.rank);
  check.that(size >= 1 && index >= 0 && index < size, "expected 'index' below 'size' but got ", index, " of ", size);
  if (!check.ok())
    return;
  check.that(in.dims[dim] % size == 0, "expected dimension ", dim, " of 'in' to be a multiple of ", size, " but got ",
             in);
  View part = in;
  part.dims[dim] /= size;
  check.like("out", out, part);
}

void checkRestOfDump(Checker &check, View in, View out, int64_t dim, int64_t blocks) {
  checkCopies(check, "in", in, "out", out, dim, blocks);
}

void checkRestOfLocalReduce(Checker &check, View in, View out, int64_t dim, int64_t blocks) {
  checkCopies(check, "out", out, "in", in, dim, blocks);
}

// --- Experts -----------------------------------------------------------------

void checkRestOfBiasAdd(Checker &check, View rows, View bias, View counts, View, double) {
  checkBias(check, "rows", rows, "bias", bias, counts);
}

void checkRestOfBiasGrad(Checker &check, View grads, View counts, View addend, View out, double) {
  checkBias(check, "grads", grads, "out", out, counts);
  if (addend)
    check.like("addend", addend, out);
}

void checkRestOfActivation(Checker &check, View in, View, View out, ActivationForm form) {
  checkActivationOf(check, in, "out", out, form);
}

void checkRestOfActivationGrad(Checker &check, View in, View grad, View, View, ActivationForm form) {
  checkActivationOf(check, in, "grad", grad, form);
}

} // namespace moert
