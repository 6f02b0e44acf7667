//===- Kernels.h - the compute of the host device --------------------------===//
//
// One function per compute call of moert.h, on resolved views, synchronous and single threaded, safe to call from any
// number of threads at once. Arguments come in the order of the ABI; absent optional views have no data.
//
// moert.h defines what each computes. f32 and f64 everywhere, i32 too where nothing is computed (copy, slice, dump);
// bf16 is refused with MOERT_ERROR_UNSUPPORTED (launchWideKernel takes it). A wrong shape or type, a slot, expert or
// count outside its range is an error that says what was expected, never an access outside a view. NaN in gives NaN
// out.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELS_H
#define MOERT_HOST_KERNELS_H

#include "core/View.h"
#include "moert/shadows.h"

namespace moert::host {

/// Makes the math libraries run single threaded when called from the calling thread. Every worker calls it once.
void initialiseThread();

// --- Dense compute -----------------------------------------------------------

/// c [m,n] = op(a) op(b); op transposes where its flag is set.
Status matmul(View a, View b, View c, bool transposeA, bool transposeB);
/// out = a + b; all of one shape, out may be a or b.
Status add(View a, View b, View out);
/// out = factor * in; one shape, out may be in.
Status scale(View in, View out, double factor);
/// out = in; one type and number of elements (the shapes may differ), out may be in.
Status copy(View in, View out);
/// out[s,:] = factors[s,0] * rows[s,:]; rows and out [S,M], factors [S,1], out may be rows.
Status rowScale(View rows, View factors, View out);
/// out[s,0] = <a[s,:], b[s,:]>; a and b [S,M], out [S,1].
Status rowDot(View a, View b, View out);
/// Part `index` of `size` equal parts of `in` along `dim`.
Status slice(View in, View out, int64_t dim, int64_t index, int64_t size);
/// in [..,blocks*n,..] -> out [..,blocks*c*n,..]: each block along `dim` c times.
Status dump(View in, View out, int64_t dim, int64_t blocks);
/// in [..,blocks*c*n,..] -> out [..,blocks*n,..]: the c copies of each block summed in their order; c may be 0.
Status localReduce(View in, View out, int64_t dim, int64_t blocks);

// --- Experts -----------------------------------------------------------------
// Capacity form, counts absent: rows [E,C,K]. Ragged form, counts [sources,E]: rows [R,K] packed by expert. More used
// rows than R is MOERT_ERROR_OVERFLOW; rows beyond the last used one are neither read nor written.

/// rows [E,C,K] -> out [E,C,N], or [R,K] -> [R,N]; weights [E,K,N], or [E,N,K] with transposeWeights.
Status groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights);
/// out [E,K,N] = addend + rows_e^T grads_e; the addend, absent zeros, for an expert without rows. out may be addend.
Status groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out);
/// out = rows + scale * bias: rows [S,N] with bias [N], or [E,C,N] with [E,N], or ragged [R,N] with [E,N].
Status biasAdd(View rows, View bias, View counts, View out, double scale);
/// out = addend (or absent) + scale * (sum of each expert's rows), in the same three forms. f32 is summed in double.
/// out may be addend.
Status biasGrad(View grads, View counts, View addend, View out, double scale);
/// in [..,N] -> out [..,N], or [..,N/2] for the swiglu kinds; with counts (any number of experts) in is [R,N]. Within
/// 1e-6 (f32) and 1e-14 (f64) of the exact value, relatively, and within x^2 / 8 times that in the tails, |x| > 2.8.
Status activation(View in, View counts, View out, int64_t kind);
/// out = (d activation / d in) * grad, shaped as in; grad is shaped as the result of `activation`.
Status activationGrad(View in, View grad, View counts, View out, int64_t kind);

// --- Routing -----------------------------------------------------------------

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

/// logits, scores [S,E]; selectionBias [E] or absent; experts, slots [S,k] i32; weights [S,k]; counts [chunks,E] i32;
/// aux []. A NaN selection value ranks below every number, so k different experts are chosen whatever the logits. A
/// token's scores do not depend on the other tokens, to the bit, nor do its choices where `leave` is negative.
/// `forced` [S,k] i32, or absent, are experts to take instead of choosing any.
Status route(View logits, View selectionBias, View scores, View experts, View slots, View weights, View counts,
             View aux, const RouteOptions &options, View forced = {});
/// scores and gradLogits [S,E], experts [S,k], gradWeights [S,k] or absent, gradAux [] or absent.
Status routeGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                 bool renormalize, int64_t groups, double routingScale);
/// tokens [S,M], slots and weights (or absent) [S,k] -> out [E,T,M] or [R,M]. Two choices of one row are an error.
Status dispatch(View tokens, View slots, View weights, View out);
/// rows [E,T,M] or [R,M], slots and weights (or absent) [S,k] -> out [S,M].
Status combine(View rows, View slots, View weights, View out);
/// tokens [S,M], rows [E,T,M] or [R,M], slots [S,k] -> out [S,k].
Status slotDot(View tokens, View rows, View slots, View out);
/// counts and out [1,E] i32: how many of each expert's rows lie in part `index` of `size` equal parts of `rows` rows.
Status sliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size);
/// As moert_local_slots says them; member `index` of `size`.
struct LocalOptions {
  int64_t capacity = 0, room = 0, copies = 1, index = 0, size = 1;
};
/// slots and localSlots [S,k] i32, counts [1,E] and localCounts [1,n] i32: the choices of the member's own n experts.
Status localSlots(View slots, View counts, View localSlots, View localCounts, const LocalOptions &options);

// --- Shadows -----------------------------------------------------------------

/// counts [sources,E] i32 -> shadows [1,E] i32; `policy` is a moert_shadow_policy, costs.policy and costs.size say
/// nothing.
Status chooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs);
/// experts [S,k] i32, shadows [1,E] i32 -> slots [S,k], counts [chunks,E], shadowSlots [S,k], shadowCounts [1,R], all
/// i32. More shadows than R are an error.
Status divideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                     int64_t chunks, int64_t chunkRows);

} // namespace moert::host

#endif // MOERT_HOST_KERNELS_H
