//===- KernelsRouter.cu - terms of the losses of routers ------------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Math.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// Facts of a token's routing: the logarithm of the sum of the exponentials of its logits, and the last chosen logit in
/// the order of choices. All logits before that one are chosen, too.
struct TokenRouting {
  double lse, last;
  int64_t lastExpert;

  __device__ bool isChosen(double logit, int64_t expert) const {
    return logit > last || (logit == last && expert <= lastExpert);
  }
};

template <class T> __device__ double logsumexp(const T *logits, int64_t experts) {
  double largest = -kInfinity<double>, sum = 0;
  for (int64_t e = 0; e < experts; ++e)
    largest = std::max(largest, convert<double>(logits[e]));
  for (int64_t e = 0; e < experts; ++e)
    sum += std::exp(convert<double>(logits[e]) - largest);
  return largest + std::log(sum);
}

/// Routes tokens, one thread for each: a row of logits is short, and the time is small beside the experts' work.
template <class T> struct RouteTokens {
  const T *logits;
  TokenRouting *tokens;
  int64_t experts, topK;

  template <int N> __device__ void run(int64_t s) const {
    const T *row = logits + s * experts;
    double last = kInfinity<double>;
    int64_t lastExpert = -1;
    for (int64_t j = 0; j < topK; ++j) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e) {
        const double logit = convert<double>(row[e]);
        const bool isLeft = logit < last || (logit == last && e > lastExpert);
        if (isLeft && (best < 0 || logit > convert<double>(row[best])))
          best = e;
      }
      if (best < 0)
        break;
      last = convert<double>(row[best]);
      lastExpert = best;
    }
    tokens[s] = {logsumexp(row, experts), last, lastExpert};
  }
};

/// Sums with a block for each group and expert. `forced` [S, topK] may be null.
template <class T>
__global__ void __launch_bounds__(kThreads)
    meansKernel(const T *logits, const TokenRouting *tokens, const int32_t *forced, T *loads, T *shares, T *squares,
                int64_t perGroup, int64_t experts, int64_t topK) {
  const int64_t group = blockIdx.x / experts, expert = blockIdx.x % experts;
  double load = 0, share = 0, square = 0;
  for (int64_t i = threadIdx.x; i < perGroup; i += kThreads) {
    const int64_t s = group * perGroup + i;
    const TokenRouting token = tokens[s];
    const double logit = convert<double>(logits[s * experts + expert]);
    if (!forced)
      load += token.isChosen(logit, expert) ? 1 : 0;
    for (int64_t j = 0; forced && j < topK; ++j)
      load += forced[s * topK + j] == expert ? 1 : 0;
    share += std::exp(logit - token.lse);
    square += token.lse * token.lse;
  }
  load = blockSum(load);
  share = blockSum(share);
  square = blockSum(square);
  if (threadIdx.x != 0)
    return;
  loads[blockIdx.x] = convert<T>(load / static_cast<double>(perGroup));
  shares[blockIdx.x] = convert<T>(share / static_cast<double>(perGroup));
  if (expert == 0)
    squares[group] = convert<T>(square / static_cast<double>(perGroup));
}

template <class T> struct MeansGrad {
  const T *logits;
  const T *gradShares, *gradSquares; ///< may be null
  T *out;
  int64_t perGroup, experts;

  template <int N> __device__ void run(int64_t s) const {
    const T *row = logits + s * experts;
    const int64_t group = s / perGroup;
    const T *toShares = gradShares ? gradShares + group * experts : nullptr;
    const double lse = logsumexp(row, experts);
    double toAll = gradSquares ? 2 * lse * convert<double>(gradSquares[group]) : 0;
    for (int64_t e = 0; toShares && e < experts; ++e)
      toAll -= std::exp(convert<double>(row[e]) - lse) * convert<double>(toShares[e]);
    for (int64_t e = 0; e < experts; ++e) {
      const double probability = std::exp(convert<double>(row[e]) - lse);
      const double gradient = toAll + (toShares ? convert<double>(toShares[e]) : 0);
      out[s * experts + e] = convert<T>(probability / static_cast<double>(perGroup) * gradient);
    }
  }
};

} // namespace

Status CudaKernels::runRouterMeans(View logits, View loads, View shares, View squares, int64_t topK, View forced) {
  const int64_t tokens = logits.dims[0], experts = logits.dims[1], groups = loads.dims[0];
  TokenRouting *routed = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(tokens, routed));
  return withFloating(logits.dtype, [&]<class T>(Type<T>) {
    MOERT_RETURN_IF_ERROR(
        forElements<1>(target, {tokens}, false, RouteTokens<T>{logits.as<const T>(), routed, experts, topK}));
    const Grid grid{.blocks = dim3(static_cast<unsigned>(groups * experts))};
    return launch(meansKernel<T>, grid, target, logits.as<const T>(), routed, forced.as<const int32_t>(), loads.as<T>(),
                  shares.as<T>(), squares.as<T>(), tokens / groups, experts, topK);
  });
}

Status CudaKernels::runRouterMeansGrad(View logits, View gradShares, View gradSquares, View gradLogits) {
  const int64_t groups = gradShares ? gradShares.dims[0] : gradSquares ? gradSquares.dims[0] : 1;
  return withFloating(logits.dtype, [&]<class T>(Type<T>) {
    const MeansGrad<T> gradient{logits.as<const T>(), gradShares.as<const T>(), gradSquares.as<const T>(),
                                gradLogits.as<T>(),   logits.dims[0] / groups,  logits.dims[1]};
    return forElements<1>(target, {logits.dims[0]}, false, gradient);
  });
}

} // namespace moert::cuda
