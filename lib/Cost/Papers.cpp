//===- Papers.cpp - the papers' formulas that decide something ------------===//
#include "moe/Cost/Papers.h"

#include <algorithm>

namespace mlir::moe {

double fastermoe::getIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio) {
  return peakFlopsPerSecond * std::min(1.0, ratio);
}

double fastermoe::getSemiIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio) {
  return peakFlopsPerSecond * ratio / (ratio + 1);
}

namespace {
/// A row of MPipeMoE's Table II: passes over computation, communication and copies.
struct Passes {
  double compute, communication, copy;
};
} // namespace

static constexpr Passes forwardPasses[] = {{2, 2, 0}, {2, 2, 5}, {2, 2, 4}, {2, 2, 1}, {2, 2, 0}};
static constexpr Passes backwardPasses[] = {{4, 2, 0}, {4, 2, 5}, {4, 3, 4}, {5, 2, 1}, {5, 3, 0}};

double mpipemoe::getSeconds(const Layer &layer, Strategy strategy, const Rates &rates) {
  auto row = static_cast<unsigned>(strategy);
  double communication = forwardPasses[row].copy > 0 ? rates.communicationAll : rates.communication;
  double embedded = layer.tokens * layer.embedding;
  double seconds = 0;
  for (const Passes &passes : {forwardPasses[row], backwardPasses[row]}) {
    double compute = passes.compute * embedded * layer.hidden / (rates.compute * rates.computePerSecond);
    double exchange = passes.communication * embedded / (communication * rates.communicationPerSecond);
    // A device without a host link has no rate for copies.
    double copy = passes.copy > 0 ? passes.copy * embedded / (rates.copyAll * rates.copyPerSecond) : 0;
    seconds += std::max({compute, exchange, copy});
  }
  return seconds;
}

double parm::getS1Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp) {
  return 2 * allToAll(layer.getSplit()) + allGatherMp(layer.batch * layer.sequence * layer.embedding);
}

double parm::getS2Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta overlapped) {
  return allToAll(layer.getSplit()) + overlapped(layer.getSplit());
}

parm::Schedule parm::chooseSchedule(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp,
                                    AlphaBeta overlapped) {
  return getS1Seconds(layer, allToAll, allGatherMp) <= getS2Seconds(layer, allToAll, overlapped) ? Schedule::S1
                                                                                                 : Schedule::S2;
}

} // namespace mlir::moe
