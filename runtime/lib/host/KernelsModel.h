//===- KernelsModel.h - kernels of whole models and of optimizers ----------===//
//
// The sections "Whole models" and "Optimizers" of moert.h, by the conventions of Kernels.h. An id or label out of range
// is an error that names it and its place.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELSMODEL_H
#define MOERT_HOST_KERNELSMODEL_H

#include "core/View.h"

namespace moert::host {

/// A rank's part (rank / stride) mod parts of something cut into equal parts.
struct Part {
  int64_t parts = 1;
  int64_t stride = 1;
  int64_t rank = 0;
  /// Both counts must be 1 or more.
  int64_t index() const { return rank / stride % parts; }
};

// --- Tokens and their rows ---------------------------------------------------

/// out[s] = s mod period, i32 [S].
Status positions(View out, int64_t period);
/// out = factor * in + offset, i32 of one shape; a result beyond i32 is an error. out may be in.
Status indexAffine(View in, View out, int64_t factor, int64_t offset);
/// out = value everywhere, f32, f64 or i32.
Status fill(View out, double value);
/// out = in in out's type: f32, f64 or bf16, one shape. bf16 is rounded once, ties to even. out is not in.
Status cast(View in, View out);
/// ids [S] i32, table [V,M] -> out [S,M], zeros for the ids of other parts.
Status embedding(View ids, View table, View out, Part part);
/// ids [S] i32, grads [S,M] -> out [V,M] = addend (or absent) + the rows of each id. f32 is summed in double. out may
/// be addend.
Status embeddingGrad(View ids, View grads, View addend, View out, Part part);

// --- Norms -------------------------------------------------------------------

/// x [S,bD], gamma [D], beta [D] or absent -> out [S,bD]; `kind` is a moert_norm_kind. out may be x.
Status norm(View x, View gamma, View beta, View out, int64_t kind, double eps);
/// x and grads [S,bD], gamma [D] -> out [S,bD]; out may be grads.
Status normGrad(View x, View gamma, View grads, View out, int64_t kind, double eps);
/// x and grads [S,bD] -> out [D] = addend (or absent) + gradient of gamma. f32 is summed in double. out may be addend.
Status normWgrad(View x, View grads, View addend, View out, int64_t kind, double eps);
/// out = (scale * in + eps)^(-1/2), one shape, out may be in.
Status inverseRoot(View in, View out, double scale, double eps);
/// out = -scale/2 * root^3 * grads, one shape, out may be either.
Status inverseRootGrad(View root, View grads, View out, double scale);

// --- Positions ---------------------------------------------------------------

/// The attributes of moert_rotary.
struct RotaryOptions {
  int64_t period = 1;
  int64_t headDim = 0;
  int64_t begin = 0;
  int64_t rotaryDim = 0;
  bool interleaved = false;
  int64_t direction = 1; ///< 1, or -1 for the adjoint
  double base = 10000.0;
  double factor = 1.0;
  double low = 0.0;
  double high = 1.0;
  double scale = 1.0;
};

/// x and out [S, heads * headDim]; out may be x.
Status rotary(View x, View out, const RotaryOptions &options);
/// table [buckets,H] -> out [H,L,Lk].
Status relativeBias(View table, View out, bool bidirectional, int64_t maxDistance);
/// grads [H,L,Lk] -> out [buckets,H] = addend (or absent) + gradient of the table, summed in double. out may be addend.
Status relativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance);

// --- Attention ---------------------------------------------------------------

/// x [S, H D], shared [S,R] -> out [S, H (D + R)]; the shapes give H.
Status appendToHeads(View x, View shared, View out);
/// grads [S, H (D + R)] -> gradX [S, H D], gradShared [S,R], which is summed in double.
Status appendToHeadsGrad(View grads, View gradX, View gradShared);

/// The attributes of moert_attention.
struct AttentionOptions {
  int64_t qLength = 0;
  int64_t kLength = 0;
  int64_t heads = 1;  ///< of q
  int64_t kHeads = 1; ///< that q's key heads are chosen from
  Part part;          ///< of the model's query heads
  bool causal = false;
  int64_t window = 0; ///< keys that a query sees; 0: all
  int64_t seed = 0;
  Part rows; ///< of the sequences
  double scale = 1.0;
  double dropout = 0.0;
};

/// What all attention kernels read: q [BL, H Dk], k [BLk, Hk Dk], v [BLk, Hk Dv], bias [H,L,Lk] or absent, sinks [H] or
/// absent, step [] i32, absent without dropout. k and v may also hold the key heads of q's part alone.
struct AttentionInputs {
  View q, k, v, bias, sinks, step;
};

/// out [BL, H Dv], lse [BL, H]. Memory besides is bounded by a block of queries.
Status attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options);
/// attended and grads shaped as `out` of attention; gradQ, gradK and gradV as q, k and v.
Status attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                     View gradV, const AttentionOptions &options);
/// out [H,L,Lk]; f32 is summed in double.
Status attentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                         const AttentionOptions &options);
/// sinks [H], lse [S,H], attended and grads [S, H Dv] -> out [H]; f32 is summed in double.
Status attentionSinksGrad(View sinks, View lse, View attended, View grads, View out);

// --- Dropout -----------------------------------------------------------------

/// x and out [S,N], step [] i32; 0 <= p < 1. out may be x.
Status dropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p);

// --- Losses ------------------------------------------------------------------

/// x [S,V] -> out [S,1].
Status rowLogsumexp(View x, View out);
/// x [S,V], lse and grads [S,1] -> out [S,V]; out may be x.
Status rowLogsumexpGrad(View x, View lse, View grads, View out);
/// x [S,V], labels [S] i32 -> out [S,1].
Status pick(View x, View labels, View out, Part part);
/// labels [S] i32, grads [S,1] -> out [S,V] = addend (or absent) + grads at the labels. out may be addend.
Status pickGrad(View labels, View grads, View addend, View out, Part part);
/// rows [S,1], labels [S] i32 -> sum [], count [], of the type of rows. Summed in double.
Status labelSum(View rows, View labels, View sum, View count);
/// labels [S] i32, grad [] -> out [S,1].
Status labelSumGrad(View labels, View grad, View out);
/// All []; out may be a or b.
Status divide(View a, View b, View out);

// --- Optimizers --------------------------------------------------------------

/// in of any shape -> out [].
Status sumSquares(View in, View out);
/// Both [].
Status clipFactor(View sumSquares, View out, double most);
/// Both [].
Status squareRoot(View in, View out);
/// param, grad, velocity and the results of one shape; rate and factor (or absent) []. Outputs may be the inputs.
Status sgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
           double momentum, double decay);

/// The attributes of moert_adam.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.0;
};
/// Likewise; step [] i32 is how many steps were made before.
Status adam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
            View firstOut, View secondOut, const AdamOptions &options);

} // namespace moert::host

#endif // MOERT_HOST_KERNELSMODEL_H
