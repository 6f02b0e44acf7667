//===- ChecksModel.cpp - operands of embeddings, norms, losses, optimizers ===//

#include "core/Checker.h"
#include "core/Checks.h"

#include <cmath>
#include <limits>

namespace moert {
namespace {

/// Checks the part of a value whose parts have `size` indices.
void checkPart(Checker &check, Part part, int64_t size) {
  check.part(part);
  int64_t end = 0;
  check.that(!__builtin_mul_overflow(part.parts, size, &end), "expected fewer than ", part.parts, " parts of ", size);
}

/// Checks that rows of x consist of blocks with as many columns as `vector`.
void checkBlocks(Checker &check, View x, const char *name, View vector, int64_t kind, double eps) {
  check.that(kind >= MOERT_LAYER_NORM && kind <= MOERT_NO_NORM, "expected 'kind' to be a moert_norm_kind but got ",
             kind);
  check.that(eps >= 0, "expected 'eps' of 0 or more but got ", eps);
  const int64_t count = vector.dims[0];
  check.that(count >= 1 && x.dims[1] % count == 0, "expected the columns of 'x' to be a multiple of those of '", name,
             "' but got ", x, " and ", vector);
}

/// Checks that `means` are [G, ..] and that G divides the tokens.
void checkMeans(Checker &check, View logits, const char *name, View means) {
  const int64_t groups = means.dims[0];
  check.that(groups >= 1 && logits.dims[0] % groups == 0, "expected '", name, "' of groups that divide ",
             logits.dims[0], " tokens but got ", means);
}

} // namespace

// --- Tokens and their rows ---------------------------------------------------

void checkRestOfPositions(Checker &check, View, int64_t period, SequenceCut cut) {
  check.that(period >= 1 && period <= std::numeric_limits<int32_t>::max(), "expected 'period' of 1 or more but got ",
             period);
}

void checkRestOfFill(Checker &check, View out, double value) {
  const bool isInteger = value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max() &&
                         value == std::trunc(value);
  check.that(out.dtype != MOERT_I32 || isInteger, "expected an i32 value but got ", value);
}

void checkRestOfEmbedding(Checker &check, View, View table, View, Part part) { checkPart(check, part, table.dims[0]); }

void checkRestOfEmbeddingGrad(Checker &check, View, View, View, View out, Part part, int64_t padding) {
  checkPart(check, part, out.dims[0]);
  check.that(padding < part.parts * out.dims[0], "expected 'padding' below ", part.parts * out.dims[0], " but got ",
             padding);
}

// --- Norms -------------------------------------------------------------------

void checkRestOfNorm(Checker &check, View x, View gamma, View, View, int64_t kind, double eps) {
  checkBlocks(check, x, "gamma", gamma, kind, eps);
}

void checkRestOfNormGrad(Checker &check, View x, View gamma, View, View, int64_t kind, double eps) {
  checkBlocks(check, x, "gamma", gamma, kind, eps);
}

void checkRestOfNormWgrad(Checker &check, View x, View, View, View out, int64_t kind, double eps) {
  checkBlocks(check, x, "out", out, kind, eps);
}

// --- Losses ------------------------------------------------------------------

void checkRestOfPick(Checker &check, View x, View, View, Part part) { checkPart(check, part, x.dims[1]); }

void checkRestOfPickGrad(Checker &check, View, View, View, View out, Part part) { checkPart(check, part, out.dims[1]); }

void checkRestOfRouterMeans(Checker &check, View logits, View loads, View, View, int64_t topK, View forced) {
  const int64_t experts = logits.dims[1];
  check.that(topK >= 1 && topK <= experts, "expected 'top_k' from 1 to ", experts, " but got ", topK);
  checkMeans(check, logits, "loads", loads);
  if (forced)
    check.shape("the forced experts", forced, {logits.dims[0], topK});
}

void checkRestOfRouterMeansGrad(Checker &check, View logits, View gradShares, View gradSquares, View) {
  if (gradShares)
    checkMeans(check, logits, "grad_shares", gradShares);
  if (gradSquares)
    checkMeans(check, logits, "grad_squares", gradSquares);
}

// --- Optimizers --------------------------------------------------------------

void checkRestOfClipFactor(Checker &check, View, View, double most) {
  check.that(most >= 0, "expected 'most' of 0 or more but got ", most);
}

} // namespace moert
