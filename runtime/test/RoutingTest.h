//===- RoutingTest.h - operands and oracles of the routing tests -----------===//
#ifndef MOERT_TEST_ROUTINGTEST_H
#define MOERT_TEST_ROUTINGTEST_H

#include "KernelsTest.h"

#include <algorithm>
#include <numeric>

namespace moert::host {

/// Operands of one routing.
template <class T> struct Routing {
  Routing(int64_t s, int64_t e, int64_t k, int64_t chunks = 1)
      : logits({s, e}), bias({e}), scores({s, e}, T(NAN)), experts({s, k}, -9), slots({s, k}, -9),
        weights({s, k}, T(NAN)), counts({chunks, e}, -9), aux({}, T(NAN)) {}

  Status run(const RouteOptions &options, bool withBias = false, View forced = {}) {
    return route(logits.view(), withBias ? bias.view() : View(), scores.view(), experts.view(), slots.view(),
                 weights.view(), counts.view(), aux.view(), options, forced);
  }

  Tensor<T> logits, bias, scores;
  Tensor<int32_t> experts, slots;
  Tensor<T> weights;
  Tensor<int32_t> counts;
  Tensor<T> aux;
};

/// Turns the slots and counts of one chunk into those of several, as moert_route numbers rows.
inline void cutIntoChunks(std::vector<int32_t> &slots, std::vector<int32_t> &counts,
                          const std::vector<int32_t> &experts, int64_t tokens, int64_t choices,
                          const RouteOptions &options) {
  const int64_t n = options.chunks, e = int64_t(counts.size()), all = options.groups * options.capacity;
  const int64_t width = all ? options.expertChunkRows() : 0;
  counts.assign(n * e, 0);
  std::vector<int64_t> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slots[a] < slots[b]; });
  std::vector<int64_t> used(n);
  for (int64_t i : order) {
    if (slots[i] < 0)
      continue;
    const int64_t row = slots[i] - experts[i] * all;
    const int64_t chunk = all ? row / width : i / choices * n / tokens;
    if (all)
      slots[i] = int32_t((chunk * e + experts[i]) * width + row % width);
    else
      slots[i] = int32_t(chunk * options.chunkRows + used[chunk]++);
    ++counts[chunk * e + experts[i]];
  }
}

/// Expects slots, counts and the auxiliary loss to follow from the kernel's own choices and scores.
template <class T> void checkSlotsAndLoss(Routing<T> &routing, const RouteOptions &options) {
  const int64_t s = routing.logits.dims[0], e = routing.logits.dims[1], k = routing.experts.dims[1];
  const int64_t span = s / options.groups;
  std::vector<int32_t> slots(s * k, -1), counts(e);
  double loss = 0;
  for (int64_t g = 0; g < options.groups; ++g) {
    std::vector<int64_t> used(e);
    for (int64_t j = 0; j < k; ++j)
      for (int64_t t = g * span; t < (g + 1) * span; ++t) {
        int64_t x = routing.experts[t * k + j], at = used[x]++;
        if (at < options.capacity)
          slots[t * k + j] = int32_t(x * options.groups * options.capacity + g * options.capacity + at);
      }
    std::vector<double> means(e);
    for (int64_t t = g * span; t < (g + 1) * span; ++t) {
      auto first = routing.scores.data.begin() + t * e;
      const double row = options.score == MOERT_SOFTMAX ? 1.0 : std::accumulate(first, first + e, 0.0);
      for (int64_t x = 0; x < e; ++x)
        means[x] += double(first[x]) / row / double(span);
    }
    for (int64_t x = 0; x < e; ++x) {
      counts[x] += int32_t(options.capacity ? std::min(used[x], options.capacity) : used[x]);
      loss += double(e) * double(used[x]) / double(k * span) * means[x] / double(options.groups);
    }
  }
  if (options.capacity == 0) {
    int32_t next = 0;
    for (int64_t x = 0; x < e; ++x)
      for (int64_t i = 0; i < s * k; ++i)
        if (routing.experts[i] == x)
          slots[i] = next++;
  }
  cutIntoChunks(slots, counts, routing.experts.data, s, k, options);
  ASSERT_EQ(routing.slots.data, slots);
  ASSERT_EQ(routing.counts.data, counts);
  expectNear(std::vector<T>{routing.aux[0]}, std::vector<double>{s ? loss : 0.0}, tolerance<T>());
}

/// Weights and aux of fixed choices. route_grad gives their gradient, and the choice is a constant.
inline double fixedLoss(Routing<double> &routing, const RouteOptions &options, const Tensor<int32_t> &experts,
                        const Tensor<double> *gradWeights, double gradAux) {
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.experts.data, experts.data) << "the step of the difference changed a choice";
  return (gradWeights ? inner(routing.weights.data, gradWeights->data) : 0.0) + gradAux * routing.aux[0];
}

} // namespace moert::host

#endif // MOERT_TEST_ROUTINGTEST_H
