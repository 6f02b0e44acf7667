//===- Kernels.h - the compute of a device ---------------------------------===//
//
// What every device computes: one function per compute call of moert.h, and the one dispatch from a call to it.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_KERNELS_H
#define MOERT_CORE_KERNELS_H

#include "core/Call.h"
#include "moert/shadows.h"

namespace moert {

/// The attributes of moert_route.
struct RouteOptions {
  int64_t score = MOERT_SOFTMAX; ///< moert_score_kind
  bool renormalize = false;
  int64_t expertGroups = 1;
  int64_t topGroups = 1;
  int64_t groupScore = MOERT_GROUP_MAX; ///< moert_group_score_kind
  int64_t capacity = 0;                 ///< rows for each expert and routing group; 0 is dropless
  int64_t groups = 1;                   ///< routing groups: blocks of S / groups consecutive tokens
  int64_t chunks = 1;                   ///< of the rows
  int64_t chunkRows = 0;                ///< rows of a chunk, dropless; 0 with one chunk: all
  int64_t leave = -1;                   ///< choices j of a routing group that may leave home; negative: all
  int64_t homes = 1;                    ///< blocks of experts; group g is at home with (rank / homeStride +
                                        ///< g / homeSpan) mod homes
  int64_t homeStride = 1;
  int64_t homeSpan = 1;
  int64_t rank = 0; ///< of the world
  double routingScale = 1.0;
};

/// As moert_local_slots says them; member `index` of `size`.
struct LocalOptions {
  int64_t capacity = 0, room = 0, copies = 1, index = 0, size = 1;
  /// Of `experts`, how many the member has, and its first one.
  int64_t ownExperts(int64_t experts) const { return experts * copies / size; }
  int64_t firstExpert(int64_t experts) const { return index / copies * ownExperts(experts); }
};

/// A rank's part (rank / stride) mod parts of something cut into equal parts.
struct Part {
  int64_t parts = 1;
  int64_t stride = 1;
  int64_t rank = 0;
  /// Both counts must be 1 or more.
  int64_t index() const { return rank / stride % parts; }
};

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

/// The attributes of moert_adam.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.0;
};

/// A device's kernels, on resolved views. moert.h defines what each computes; arguments come in the order of the ABI,
/// and absent optional views have no data. An implementation checks operands by core/Checks.h. A wrong shape or type, a
/// slot, expert, id, label or count outside its range is an error that says what was expected, never an access outside
/// a view. NaN in gives NaN out.
class Kernels {
public:
  virtual ~Kernels() = default;

  // --- Dense compute ---------------------------------------------------------

  /// c [m,n] = op(a) op(b); op transposes where its flag is set.
  virtual Status matmul(View a, View b, View c, bool transposeA, bool transposeB) = 0;
  /// out = a + b; all of one shape, out may be a or b.
  virtual Status add(View a, View b, View out) = 0;
  /// out = factor * in; one shape, out may be in.
  virtual Status scale(View in, View out, double factor) = 0;
  /// out = in; one type and number of elements (the shapes may differ), out may be in.
  virtual Status copy(View in, View out) = 0;
  /// out[s,:] = factors[s,0] * rows[s,:]; rows and out [S,M], factors [S,1], out may be rows.
  virtual Status rowScale(View rows, View factors, View out) = 0;
  /// out[s,0] = <a[s,:], b[s,:]>; a and b [S,M], out [S,1].
  virtual Status rowDot(View a, View b, View out) = 0;
  /// Part `index` of `size` equal parts of `in` along `dim`.
  virtual Status slice(View in, View out, int64_t dim, int64_t index, int64_t size) = 0;
  /// in [..,blocks*n,..] -> out [..,blocks*c*n,..]: each block along `dim` c times.
  virtual Status dump(View in, View out, int64_t dim, int64_t blocks) = 0;
  /// in [..,blocks*c*n,..] -> out [..,blocks*n,..]: the c copies of each block summed in their order; c may be 0.
  virtual Status localReduce(View in, View out, int64_t dim, int64_t blocks) = 0;

  // --- Experts ---------------------------------------------------------------
  // Capacity form, counts absent: rows [E,C,K]. Ragged form, counts [sources,E]: rows [R,K] packed by expert. More used
  // rows than R is MOERT_ERROR_OVERFLOW; rows beyond the last used one are neither read nor written.

  /// rows [E,C,K] -> out [E,C,N], or [R,K] -> [R,N]; weights [E,K,N], or [E,N,K] with transposeWeights.
  virtual Status groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights) = 0;
  /// out [E,K,N] = addend + rows_e^T grads_e; the addend, absent zeros, for an expert without rows. out may be addend.
  virtual Status groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out) = 0;
  /// out = rows + scale * bias: rows [S,N] with bias [N], or [E,C,N] with [E,N], or ragged [R,N] with [E,N].
  virtual Status biasAdd(View rows, View bias, View counts, View out, double scale) = 0;
  /// out = addend (or absent) + scale * (sum of each expert's rows), in the same three forms. out may be addend.
  virtual Status biasGrad(View grads, View counts, View addend, View out, double scale) = 0;
  /// in [..,N] -> out [..,N], or [..,N/2] for the swiglu kinds; with counts (any number of experts) in is [R,N].
  virtual Status activation(View in, View counts, View out, int64_t kind) = 0;
  /// out = (d activation / d in) * grad, shaped as in; grad is shaped as the result of `activation`.
  virtual Status activationGrad(View in, View grad, View counts, View out, int64_t kind) = 0;

  // --- Routing ---------------------------------------------------------------

  /// logits, scores [S,E]; selectionBias [E] or absent; experts, slots [S,k] i32; weights [S,k]; counts [chunks,E] i32;
  /// aux []. A NaN selection value ranks below every number, so k different experts are chosen whatever the logits. A
  /// token's scores do not depend on the other tokens, to the bit, nor do its choices where `leave` is negative.
  /// `forced` [S,k] i32, or absent, are experts to take instead of choosing any.
  virtual Status route(View logits, View selectionBias, View scores, View experts, View slots, View weights,
                       View counts, View aux, const RouteOptions &options, View forced) = 0;
  /// Sets `forced` to page.forced, of the shape of `experts`, where this device's kernels can read it.
  virtual Status forcedChoices(RoutingPage &page, View experts, View &forced) = 0;
  /// Sets page.chosen to the `experts` that the call of `route` just before chooses, at the latest when the step ends.
  virtual Status recordChoices(View experts, RoutingPage &page) = 0;
  /// scores and gradLogits [S,E], experts [S,k], gradWeights [S,k] or absent, gradAux [] or absent.
  virtual Status routeGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                           bool renormalize, int64_t groups, double routingScale) = 0;
  /// tokens [S,M], slots and weights (or absent) [S,k] -> out [E,T,M] or [R,M]. Two choices of one row are an error.
  virtual Status dispatch(View tokens, View slots, View weights, View out) = 0;
  /// rows [E,T,M] or [R,M], slots and weights (or absent) [S,k] -> out [S,M].
  virtual Status combine(View rows, View slots, View weights, View out) = 0;
  /// tokens [S,M], rows [E,T,M] or [R,M], slots [S,k] -> out [S,k].
  virtual Status slotDot(View tokens, View rows, View slots, View out) = 0;
  /// counts and out [1,E] i32: how many of each expert's rows lie in part `index` of `size` equal parts of `rows` rows.
  virtual Status sliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size) = 0;
  /// slots and localSlots [S,k] i32, counts [1,E] and localCounts [1,n] i32: the choices of the member's own n experts.
  virtual Status localSlots(View slots, View counts, View localSlots, View localCounts,
                            const LocalOptions &options) = 0;

  // --- Shadows ---------------------------------------------------------------

  /// counts [sources,E] i32 -> shadows [1,E] i32; `policy` is a moert_shadow_policy, costs.policy and costs.size say
  /// nothing.
  virtual Status chooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs) = 0;
  /// experts [S,k] i32, shadows [1,E] i32 -> slots [S,k], counts [chunks,E], shadowSlots [S,k], shadowCounts [1,R], all
  /// i32. More shadows than R are an error.
  virtual Status divideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                               int64_t chunks, int64_t chunkRows) = 0;

  // --- Tokens and their rows -------------------------------------------------

  /// out[s] = s mod period, i32 [S].
  virtual Status positions(View out, int64_t period) = 0;
  /// out = factor * in + offset, i32 of one shape; a result beyond i32 is an error. out may be in.
  virtual Status indexAffine(View in, View out, int64_t factor, int64_t offset) = 0;
  /// out = value everywhere, of a floating type or i32.
  virtual Status fill(View out, double value) = 0;
  /// out = in in out's type: floating ones of one shape. Rounded once, ties to even. out is not in.
  virtual Status cast(View in, View out) = 0;
  /// ids [S] i32, table [V,M] -> out [S,M], zeros for the ids of other parts.
  virtual Status embedding(View ids, View table, View out, Part part) = 0;
  /// ids [S] i32, grads [S,M] -> out [V,M] = addend (or absent) + the rows of each id. out may be addend.
  virtual Status embeddingGrad(View ids, View grads, View addend, View out, Part part) = 0;

  // --- Norms -----------------------------------------------------------------

  /// x [S,bD], gamma [D], beta [D] or absent -> out [S,bD]; `kind` is a moert_norm_kind. out may be x.
  virtual Status norm(View x, View gamma, View beta, View out, int64_t kind, double eps) = 0;
  /// x and grads [S,bD], gamma [D] -> out [S,bD]; out may be grads.
  virtual Status normGrad(View x, View gamma, View grads, View out, int64_t kind, double eps) = 0;
  /// x and grads [S,bD] -> out [D] = addend (or absent) + gradient of gamma. out may be addend.
  virtual Status normWgrad(View x, View grads, View addend, View out, int64_t kind, double eps) = 0;
  /// out = (scale * in + eps)^(-1/2), one shape, out may be in.
  virtual Status inverseRoot(View in, View out, double scale, double eps) = 0;
  /// out = -scale/2 * root^3 * grads, one shape, out may be either.
  virtual Status inverseRootGrad(View root, View grads, View out, double scale) = 0;

  // --- Heads and attention ---------------------------------------------------

  /// x and out [S, heads * headDim]; out may be x.
  virtual Status rotary(View x, View out, const RotaryOptions &options) = 0;
  /// x [S, H D], shared [S,R] -> out [S, H (D + R)]; the shapes give H.
  virtual Status appendToHeads(View x, View shared, View out) = 0;
  /// grads [S, H (D + R)] -> gradX [S, H D], gradShared [S,R].
  virtual Status appendToHeadsGrad(View grads, View gradX, View gradShared) = 0;
  /// out [BL, H Dv], lse [BL, H].
  virtual Status attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) = 0;
  /// attended and grads shaped as `out` of attention; gradQ, gradK and gradV as q, k and v.
  virtual Status attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ,
                               View gradK, View gradV, const AttentionOptions &options) = 0;
  /// out [H,L,Lk].
  virtual Status attentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                                   const AttentionOptions &options) = 0;
  /// sinks [H], lse [S,H], attended and grads [S, H Dv] -> out [H].
  virtual Status attentionSinksGrad(View sinks, View lse, View attended, View grads, View out) = 0;
  /// table [buckets,H] -> out [H,L,Lk].
  virtual Status relativeBias(View table, View out, bool bidirectional, int64_t maxDistance) = 0;
  /// grads [H,L,Lk] -> out [buckets,H] = addend (or absent) + gradient of the table. out may be addend.
  virtual Status relativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance) = 0;
  /// x and out [S,N], step [] i32; 0 <= p < 1. out may be x.
  virtual Status dropout(View x, View step, View out, int64_t seed, Part rows, Part columns, double p) = 0;

  // --- Losses ----------------------------------------------------------------

  /// x [S,V] -> out [S,1].
  virtual Status rowLogsumexp(View x, View out) = 0;
  /// x [S,V], lse and grads [S,1] -> out [S,V]; out may be x.
  virtual Status rowLogsumexpGrad(View x, View lse, View grads, View out) = 0;
  /// x [S,V], labels [S] i32 -> out [S,1].
  virtual Status pick(View x, View labels, View out, Part part) = 0;
  /// labels [S] i32, grads [S,1] -> out [S,V] = addend (or absent) + grads at the labels. out may be addend.
  virtual Status pickGrad(View labels, View grads, View addend, View out, Part part) = 0;
  /// rows [S,1], labels [S] i32 -> sum [], count [], of the type of rows.
  virtual Status labelSum(View rows, View labels, View sum, View count) = 0;
  /// labels [S] i32, grad [] -> out [S,1].
  virtual Status labelSumGrad(View labels, View grad, View out) = 0;
  /// All []; out may be a or b.
  virtual Status divide(View a, View b, View out) = 0;

  // --- Optimizers ------------------------------------------------------------

  /// in of any shape -> out [].
  virtual Status sumSquares(View in, View out) = 0;
  /// Both [].
  virtual Status clipFactor(View sumSquares, View out, double most) = 0;
  /// Both [].
  virtual Status squareRoot(View in, View out) = 0;
  /// param, grad, velocity and the results of one shape; rate and factor (or absent) []. Outputs may be the inputs.
  virtual Status sgd(View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
                     double momentum, double decay) = 0;
  /// Likewise; step [] i32 is how many steps were made before.
  virtual Status adam(View param, View grad, View first, View second, View rate, View step, View factor, View paramOut,
                      View firstOut, View secondOut, const AdamOptions &options) = 0;
};

/// Runs the kernel of a call that is no collective.
Status launchKernel(Kernels &kernels, const Call &call);
/// The same for the calls of whole models and of optimizers, from Kind::Positions on.
Status launchModelKernel(Kernels &kernels, const Call &call);

} // namespace moert

#endif // MOERT_CORE_KERNELS_H
