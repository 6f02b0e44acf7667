//===- Kernels.h - the compute of the host device --------------------------===//
//
// The functions of core/Kernels.h, which says what they take, synchronous and single threaded, safe to call from any
// number of threads at once. f32 and f64 everywhere, i32 too where nothing is computed (copy, slice, dump); bf16
// and f16 are refused with MOERT_ERROR_UNSUPPORTED (launchWideKernel takes it).
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELS_H
#define MOERT_HOST_KERNELS_H

#include "core/Kernels.h"

namespace moert::host {

/// Makes the math libraries run single threaded when called from the calling thread. Every worker calls it once.
void initialiseThread();

// --- Dense compute -----------------------------------------------------------

Status matmul(View a, View b, View c, bool transposeA, bool transposeB);
Status add(View a, View b, View out);
Status scale(View in, View out, double factor);
Status copy(View in, View out);
Status rowScale(View rows, View factors, View out);
Status rowDot(View a, View b, View out);
Status slice(View in, View out, int64_t dim, int64_t index, int64_t size);
Status dump(View in, View out, int64_t dim, int64_t blocks);
Status localReduce(View in, View out, int64_t dim, int64_t blocks);

// --- Experts -----------------------------------------------------------------

Status groupedMatmul(View rows, View weights, View counts, View out, bool transposeWeights);
Status groupedMatmulWgrad(View rows, View grads, View counts, View addend, View out);
Status biasAdd(View rows, View bias, View counts, View out, double scale);
/// f32 is summed in double.
Status biasGrad(View grads, View counts, View addend, View out, double scale);
/// Within 1e-6 (f32) and 1e-14 (f64) of the exact value, relatively, and within x^2 / 8 times that in the tails, |x| >
/// 2.8.
Status activation(View in, View counts, View out, int64_t kind);
Status activationGrad(View in, View grad, View counts, View out, int64_t kind);

// --- Routing -----------------------------------------------------------------

Status route(View logits, View selectionBias, View scores, View experts, View slots, View weights, View counts,
             View aux, const RouteOptions &options, View forced = {});
Status routeGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score,
                 bool renormalize, int64_t groups, double routingScale);
Status dispatch(View tokens, View slots, View weights, View out);
Status combine(View rows, View slots, View weights, View out);
Status slotDot(View tokens, View rows, View slots, View out);
Status sliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size);
Status localSlots(View slots, View counts, View localSlots, View localCounts, const LocalOptions &options);

// --- Shadows -----------------------------------------------------------------

Status chooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs);
Status divideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                     int64_t chunks, int64_t chunkRows);

} // namespace moert::host

#endif // MOERT_HOST_KERNELS_H
