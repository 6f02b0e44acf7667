//===- KernelsRouter.cpp - what losses of routers are made of --------------===//

#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Softmax of the logits of one token.
template <class T> struct TokenRouting {
  Wide<T> lse = 0;                    ///< logarithm of the sum of their exponentials
  std::vector<Wide<T>> probabilities; ///< their softmax

  explicit TokenRouting(int64_t experts) : probabilities(experts) {}

  void read(const T *logits) {
    Wide<T> largest = -std::numeric_limits<Wide<T>>::infinity();
    for (size_t e = 0; e < probabilities.size(); ++e)
      largest = std::max(largest, static_cast<Wide<T>>(logits[e]));
    Wide<T> sum = 0;
    for (size_t e = 0; e < probabilities.size(); ++e)
      sum += probabilities[e] = expOfDifference(static_cast<Wide<T>>(logits[e]), largest);
    for (Wide<T> &probability : probabilities)
      probability /= sum;
    lse = logOfSum(largest, sum);
  }
};

/// Whether expert a comes before expert b.
template <class T> struct IsBefore {
  const T *logits;
  bool operator()(int64_t a, int64_t b) const { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; }
};

template <class T>
void meansOf(const T *logits, const int32_t *forced, T *loads, T *shares, T *square, int64_t tokens, int64_t experts,
             int64_t topK) {
  std::vector<Wide<T>> load(experts), share(load);
  std::vector<int64_t> order(load.size());
  TokenRouting<T> token(experts);
  Wide<T> squares = 0;
  for (int64_t s = 0; s < tokens; ++s, logits += experts) {
    token.read(logits);
    squares += token.lse * token.lse;
    if (forced) {
      std::copy_n(forced + s * topK, topK, order.begin());
    } else {
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + topK, order.end(), IsBefore<T>{logits});
    }
    for (int64_t j = 0; j < topK; ++j)
      load[order[j]] += 1;
    for (size_t e = 0; e < share.size(); ++e)
      share[e] += token.probabilities[e];
  }
  for (size_t e = 0; e < share.size(); ++e) {
    loads[e] = static_cast<T>(load[e] / static_cast<Wide<T>>(tokens));
    shares[e] = static_cast<T>(share[e] / static_cast<Wide<T>>(tokens));
  }
  *square = static_cast<T>(squares / static_cast<Wide<T>>(tokens));
}

} // namespace

void routerMeans(Checker &check, View logits, View loads, View shares, View squares, int64_t topK, View forced) {
  const int64_t groups = loads.dims[0], tokens = logits.dims[0] / groups, experts = logits.dims[1];
  const int32_t *choices = forced.as<const int32_t>();
  for (int64_t i = 0; check.ok() && choices && i < logits.dims[0] * topK; ++i)
    check.that(choices[i] >= 0 && choices[i] < experts, "expected forced experts from 0 to ", experts - 1, " but got ",
               choices[i]);
  if (!check.ok())
    return;
  withFloating(logits.dtype, [&]<class T>(T) {
    for (int64_t g = 0; g < groups; ++g)
      meansOf(logits.as<const T>() + g * tokens * experts, choices ? choices + g * tokens * topK : nullptr,
              loads.as<T>() + g * experts, shares.as<T>() + g * experts, squares.as<T>() + g, tokens, experts, topK);
  });
}

void routerMeansGrad(Checker &, View logits, View gradShares, View gradSquares, View gradLogits) {
  const int64_t groups = gradShares ? gradShares.dims[0] : gradSquares ? gradSquares.dims[0] : 1;
  const int64_t tokens = logits.dims[0] / groups, experts = logits.dims[1];
  withFloating(logits.dtype, [&]<class T>(T) {
    TokenRouting<T> token(experts);
    for (int64_t s = 0; s < logits.dims[0]; ++s) {
      token.read(logits.as<const T>() + s * experts);
      const int64_t group = s / tokens;
      const T *toShares = gradShares ? gradShares.as<const T>() + group * experts : nullptr;
      Wide<T> toAll = gradSquares ? 2 * token.lse * static_cast<Wide<T>>(gradSquares.as<const T>()[group]) : Wide<T>(0);
      for (int64_t e = 0; toShares && e < experts; ++e)
        toAll -= token.probabilities[e] * static_cast<Wide<T>>(toShares[e]);
      for (int64_t e = 0; e < experts; ++e)
        gradLogits.as<T>()[s * experts + e] =
            static_cast<T>(token.probabilities[e] / static_cast<Wide<T>>(tokens) *
                           (toAll + (toShares ? static_cast<Wide<T>>(toShares[e]) : Wide<T>(0))));
    }
  });
}

} // namespace moert::host
