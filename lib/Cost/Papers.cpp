//===- Papers.cpp - the four papers' closed forms -------------------------===//
#include "moe/Cost/Papers.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// FasterMoE
//===----------------------------------------------------------------------===//

namespace mlir::moe::fastermoe {

static double getMost(ArrayRef<double> values) { return *llvm::max_element(values); }

double getComputeSeconds(const Model &model, ArrayRef<double> tokens, ArrayRef<double> flopsPerSecond) {
  double seconds = 0;
  for (auto [worker, count] : llvm::enumerate(tokens)) {
    double rate = flopsPerSecond.empty() ? model.flopsPerSecond : flopsPerSecond[worker];
    seconds = std::max(seconds, count * model.getForwardFlops() / rate);
  }
  return seconds;
}

double getLinkSeconds(ArrayRef<double> linkBytes, ArrayRef<double> linkBytesPerSecond) {
  double seconds = 0;
  for (auto [bytes, rate] : llvm::zip_equal(linkBytes, linkBytesPerSecond))
    seconds = std::max(seconds, bytes / rate);
  return seconds;
}

double getRatio(double computeSeconds, double linkSeconds) { return computeSeconds / linkSeconds; }

double getSynchronousSeconds(double computeSeconds, double linkSeconds) { return 3 * computeSeconds + 4 * linkSeconds; }

double getMeanFlopsPerSecond(const Model &model, ArrayRef<double> tokens, double endToEndSeconds) {
  double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  return 3 * model.getForwardFlops() * sum / (static_cast<double>(tokens.size()) * endToEndSeconds);
}

double getIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio) {
  return peakFlopsPerSecond * std::min(1.0, ratio);
}

double getSemiIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio) {
  return peakFlopsPerSecond * ratio / (ratio + 1);
}

double getImbalancedSeconds(const Model &model, ArrayRef<double> tokens) {
  double most = getMost(tokens);
  return 3 * most * model.getForwardFlops() / model.flopsPerSecond +
         4 * most * model.embedding * model.elementBytes / model.bytesPerSecond;
}

double getShadowedSeconds(const Model &model, int64_t shadows, ArrayRef<double> tokens) {
  return 3 * getMost(tokens) * model.getForwardFlops() / model.flopsPerSecond +
         2 * static_cast<double>(shadows) * model.getExpertBytes() / model.bytesPerSecond;
}

bool doesShadowingPay(const Model &model, int64_t shadows, double mostTokens, double mostTokensShadowed) {
  double moved = static_cast<double>(shadows) * model.hiddenFactor * model.embedding;
  if (mostTokens > moved)
    return true;
  // Multiplied out: the two may be equal.
  double saved = 3 * (mostTokens - mostTokensShadowed) * model.hiddenFactor * model.embedding;
  return saved > (moved - mostTokens) * model.elementBytes * model.flopsPerSecond / model.bytesPerSecond;
}

} // namespace mlir::moe::fastermoe

//===----------------------------------------------------------------------===//
// PPMoE
//===----------------------------------------------------------------------===//

namespace mlir::moe::ppmoe {

double getAllToAllRatio(double experts, double flopsPerSecond, double bytesPerSecond, double embedding) {
  return (experts - 1) * experts * flopsPerSecond / (16 * bytesPerSecond * embedding);
}

double getDirectAllToAllRatio(double experts, double flopsPerSecond, double bytesPerSecond, double embedding) {
  return (experts - 1) * flopsPerSecond / (8 * experts * bytesPerSecond * embedding);
}

double getAllReduceRatio(double ranks, double flopsPerSecond, double bytesPerSecond, double embedding) {
  return (ranks - 1) * ranks * flopsPerSecond / (4 * bytesPerSecond * embedding);
}

double getRingAllReduceRatio(double ranks, double flopsPerSecond, double bytesPerSecond, double embedding) {
  return getAllReduceRatio(ranks, flopsPerSecond, bytesPerSecond, embedding) / ranks;
}

} // namespace mlir::moe::ppmoe

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

namespace mlir::moe::mpipemoe {

double getModelStates(const Model &model) {
  return 4 * (model.experts * model.embedding + 2 * model.hidden * model.embedding);
}

double getActivations(const Model &model) { return model.tokens * (4 * model.embedding + model.hidden); }

double getBuffers(const Model &model) { return model.tokens * (model.embedding + model.hidden); }

double getPipelined(const Model &model) { return model.tokens * (4 * model.embedding + model.hidden); }

double getSaved(const Model &model, int64_t partitions) {
  double n = static_cast<double>(partitions);
  return model.tokens * (2 * model.embedding * (n - 2) / n + model.hidden * (n - 1) / n);
}

double getSavedFraction(const Model &model, int64_t partitions) {
  return 2 * getSaved(model, partitions) / (getModelStates(model) + 2 * getPipelined(model));
}

Passes getForwardPasses(Strategy strategy) {
  static constexpr Passes passes[] = {{2, 2, 0}, {2, 2, 5}, {2, 2, 4}, {2, 2, 1}, {2, 2, 0}};
  return passes[static_cast<unsigned>(strategy)];
}

Passes getBackwardPasses(Strategy strategy) {
  static constexpr Passes passes[] = {{4, 2, 0}, {4, 2, 5}, {4, 3, 4}, {5, 2, 1}, {5, 3, 0}};
  return passes[static_cast<unsigned>(strategy)];
}

bool doesOffload(Strategy strategy) { return getForwardPasses(strategy).copy > 0; }

double getSeconds(const Model &model, double tokens, Strategy strategy, const Rates &rates) {
  double communication = doesOffload(strategy) ? rates.communicationAll : rates.communication;
  double embedded = tokens * model.embedding;
  double seconds = 0;
  for (const Passes &passes : {getForwardPasses(strategy), getBackwardPasses(strategy)}) {
    double compute = passes.compute * embedded * model.hidden / (rates.compute * rates.computePerSecond);
    double exchange = passes.communication * embedded / (communication * rates.communicationPerSecond);
    // A device without a host link has no rate for copies.
    double copy = passes.copy > 0 ? passes.copy * embedded / (rates.copyAll * rates.copyPerSecond) : 0;
    seconds += std::max({compute, exchange, copy});
  }
  return seconds;
}

} // namespace mlir::moe::mpipemoe

//===----------------------------------------------------------------------===//
// Parm
//===----------------------------------------------------------------------===//

namespace mlir::moe::parm {

double getBaselineSeconds(const Layer &layer, const Seconds &allGatherEsp, const Seconds &allToAllEp,
                          const Seconds &allReduceEsp) {
  double x = layer.getDispatched();
  return allGatherEsp(x) + 2 * allToAllEp(x) + allReduceEsp(x);
}

double getSecondsWithoutMp(const Layer &layer, const Seconds &allToAll) { return 2 * allToAll(layer.getDispatched()); }

double getS2Seconds(const Layer &layer, const Seconds &allToAll,
                    const std::function<double(double, double)> &overlapped) {
  return allToAll(layer.getSplit()) +
         overlapped(layer.getSplit(), layer.experts * layer.getCapacity() * layer.embedding);
}

double getS1Seconds(const Layer &layer, const Seconds &allToAll, const Seconds &allGatherMp) {
  return 2 * allToAll(layer.getSplit()) + allGatherMp(layer.batch * layer.sequence * layer.embedding);
}

double getS1Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp) {
  return getS1Seconds(layer, Seconds(allToAll), Seconds(allGatherMp));
}

double getS2Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta overlapped) {
  return getS2Seconds(layer, Seconds(allToAll), [&](double elements, double) { return overlapped(elements); });
}

Schedule chooseSchedule(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp, AlphaBeta overlapped) {
  return getS1Seconds(layer, allToAll, allGatherMp) <= getS2Seconds(layer, allToAll, overlapped) ? Schedule::S1
                                                                                                 : Schedule::S2;
}

} // namespace mlir::moe::parm
