//===- KernelsRouteGrad.cu - the gradient of choosing experts -------------===//

#include "cuda/CudaKernels.h"
#include "cuda/LaneRow.cuh"
#include "cuda/Ranks.cuh"

namespace moert::cuda {
namespace {

/// Operands of the gradient. O is the type of scores and values of that type, T of the logits' gradient.
template <class O, class T> struct GradData {
  const O *scores;
  ExpertOfChoice experts;
  const O *gradWeights; ///< may be null
  const O *gradAux;     ///< may be null
  const int32_t *loads; ///< [groups, E], if there is gradAux
  T *out;
  int64_t tokens, groupTokens;
  int choices;
  bool isSoftmax, renormalize;
  double routingScale;
  double auxFactor; ///< factor of a load and gradAux in the gradient of a probability

  __device__ int columns() const { return static_cast<int>(experts.count); }
};

template <class A, int N> __device__ A dot(LaneRow<A, N> &a, LaneRow<A, N> &b, int columns) {
  A sum = 0;
  forSteps<N>(columns, [&](int i) { sum += a[i] * b[i]; });
  return warpSum(sum);
}

/// Adds the gradient of the score of each weight of token s to toScores[experts[j]].
template <int N, class O, class T, class A>
__device__ void addWeights(const GradData<O, T> &data, int64_t s, LaneRow<A, N> &scores, LaneRow<A, N> &toScores) {
  const int64_t first = s * data.choices;
  A sum = 0, inner = 0;
  for (int j = 0; data.renormalize && j < data.choices; ++j) {
    const int32_t expert = data.experts(first + j);
    const A score = expert >= 0 ? valueAt(scores, expert) : A(0);
    sum += score;
    inner += convert<A>(data.gradWeights[first + j]) * score;
  }
  const A divisor = data.renormalize ? sum + A(1e-20) : A(1), scale = static_cast<A>(data.routingScale);
  for (int j = 0; j < data.choices; ++j) {
    const int32_t expert = data.experts(first + j);
    const A gradient = scale * (convert<A>(data.gradWeights[first + j]) - inner / divisor) / divisor;
    if (expert >= 0)
      updateAt(toScores, expert, [=](A to) { return to + gradient; });
  }
}

/// Adds the gradient of the auxiliary loss to toScores. `probabilities` holds its gradient by the normalised scores.
template <int N, class O, class T, class A>
__device__ void addAux(const GradData<O, T> &data, int64_t s, LaneRow<A, N> &scores, LaneRow<A, N> &toScores,
                       LaneRow<A, N> &probabilities) {
  const int columns = data.columns();
  const int32_t *loads = data.loads + s / data.groupTokens * columns;
  const A perLoad = static_cast<A>(data.auxFactor * convert<double>(*data.gradAux));
  A all = 0;
  forSteps<N>(columns, [&](int i) {
    probabilities[i] = laneColumn(i) < columns ? perLoad * static_cast<A>(loads[laneColumn(i)]) : A(0);
    all += scores[i];
  });
  A factor = 1, mean = 0;
  if (!data.isSoftmax) {
    factor = 1 / warpSum(all);
    mean = dot(scores, probabilities, columns) * factor;
  }
  forSteps<N>(columns, [&](int i) { toScores[i] += factor * (probabilities[i] - mean); });
}

/// Computes the gradient with a warp for each token.
template <int N, class O, class T>
__global__ void __launch_bounds__(kThreads) routeGradKernel(GradData<O, T> data, char *memory, int64_t perWarp) {
  using A = Acc<O, T>;
  const int columns = data.columns();
  LaneMemory lanes(memory, perWarp);
  auto scores = lanes.row<A, N>(columns), toScores = lanes.row<A, N>(columns), spare = lanes.row<A, N>(columns);
  for (int64_t s = RowTeam<kWarp>::first(); s < data.tokens; s += RowTeam<kWarp>::stride()) {
    forSteps<N>(columns, [&](int i) {
      scores[i] = laneColumn(i) < columns ? convert<A>(data.scores[s * columns + laneColumn(i)]) : A(0);
      toScores[i] = 0;
    });
    if (data.gradWeights)
      addWeights(data, s, scores, toScores);
    if (data.gradAux)
      addAux(data, s, scores, toScores, spare);
    const A mean = data.isSoftmax ? dot(scores, toScores, columns) : A(0);
    forSteps<N>(columns, [&](int i) {
      const A slope = data.isSoftmax ? scores[i] : scores[i] * (1 - scores[i]);
      if (laneColumn(i) < columns)
        data.out[s * columns + laneColumn(i)] = convert<T>(slope * (toScores[i] - mean));
    });
  }
}

} // namespace

Status CudaKernels::runRouteGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits,
                                 int64_t score, bool renormalize, int64_t groups, double routingScale) {
  const int64_t tokens = scores.dims[0], columns = scores.dims[1], choices = experts.dims[1];
  if (scores.elements() == 0)
    return {};
  const bool hasAux = gradAux && choices > 0;
  const ExpertOfChoice ofChoice{experts.as<const int32_t>(), columns, target.faults()};
  const ChunkChoices<ExpertOfChoice> items{ofChoice, tokens, choices, groups};
  const Ranking ranking = items.ranking(target, columns);
  const Grid grid = gridOf(target, tokens * kWarp);
  const int64_t perWarp = columns > kLongestRow ? LaneMemory::bytes(columns, 3) : 0;
  int32_t *tileCounts = nullptr;
  const int32_t *loads = nullptr;
  char *memory = nullptr;
  MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
    tileCounts = pieces.take<int32_t>(hasAux ? ranking.counts() : 0);
    memory = pieces.take<char>(grid.blocks.x * (kThreads / kWarp) * perWarp);
  }));
  // Also notes faults of expert numbers if there is no gradient of weights.
  if (hasAux)
    MOERT_RETURN_IF_ERROR(
        target.stream.tableOf({RoutingTables::Table::Loads, experts, groups}, groups * columns, loads,
                              [&](int32_t *made) { return countItems(target, items, ranking, tileCounts, made); }));
  return withFloating(gradLogits.dtype, scores.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    GradData<O, T> data{};
    data.scores = scores.as<const O>();
    data.experts = ofChoice;
    data.gradWeights = gradWeights.as<const O>();
    data.gradAux = hasAux ? gradAux.as<const O>() : nullptr;
    data.loads = loads;
    data.out = gradLogits.as<T>();
    data.tokens = tokens;
    data.groupTokens = tokens / groups;
    data.choices = static_cast<int>(choices);
    data.isSoftmax = score == MOERT_SOFTMAX;
    data.renormalize = renormalize;
    data.routingScale = routingScale;
    data.auxFactor = static_cast<double>(columns) / static_cast<double>(tokens) /
                     (static_cast<double>(data.groupTokens) * static_cast<double>(choices));
    return withLaneRow(columns, [&](auto row) {
      return launch(routeGradKernel<decltype(row)::value, O, T>, grid, target, data, memory, perWarp);
    });
  });
}

} // namespace moert::cuda
