//===- RoutedMemory.cpp - memory by the rows that arrive ------------------===//
#include "moe/Planner/RoutedMemory.h"

#include "ParallelSearch.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

int64_t mlir::moe::getBytesOnLine(const RoutedBytes &a, const RoutedBytes &b, double load) {
  double slope = static_cast<double>(b.bytes - a.bytes) / (b.load - a.load);
  return a.bytes + static_cast<int64_t>(std::llround(slope * (load - a.load)));
}

namespace {
/// Loads of the dropless layers of a model; the largest of all layers.
struct DroplessLoads {
  double expected = 0, worst = 0; ///< 0 without such layers
  std::optional<double> room;     ///< the bound of their rows
};
} // namespace

static DroplessLoads readLoads(ModuleOp graph, int64_t ranks) {
  DroplessLoads loads;
  for (const RankLoads &one : getRankLoads(graph))
    loads.expected = std::max(loads.expected, one.getMeanLoad(ranks));
  graph.walk([&](LayerOp layer) {
    if (!layer.isDropless())
      return;
    int64_t topK = layer.getTopK(), own = layer.getW1().getType().getDimSize(0) / ranks;
    loads.worst = std::max(loads.worst, static_cast<double>(ranks * std::min(topK, own)) / static_cast<double>(topK));
    if (std::optional<APFloat> room = layer.getMaxLoad())
      loads.room = room->convertToDouble();
  });
  return loads;
}

std::optional<RoutedMemory> mlir::moe::getRoutedMemory(const ModelSource &source, const PlanOptions &options,
                                                       const Candidate &plan) {
  int64_t ranks = plan.parallel.getEp();
  if (source.kinds.empty() || plan.whole.bytes == 0)
    return std::nullopt;
  FailureOr<OwningOpRef<ModuleOp>> graph =
      source.read(*options.parallel.getContext(), {.batch = 1, .maxLoad = plan.maxLoad});
  if (failed(graph))
    return std::nullopt;
  DroplessLoads loads = readLoads(**graph, ranks);
  if (loads.worst == 0 || loads.expected == 0)
    return std::nullopt;
  // A rank with all experts has as many rows as are chosen.
  if (loads.worst <= 1)
    return RoutedMemory{{1, plan.whole.bytes}, {1, plan.whole.bytes}, {1, plan.whole.bytes}};
  StepEstimator estimator(source, options, plan.parallel.getWorld());
  auto sample = [&](double load) -> std::optional<RoutedBytes> {
    Candidate one = plan;
    one.maxLoad = load;
    std::string ignored;
    std::optional<PipelineEstimate> step = estimator.estimate(one, ignored);
    return step ? std::optional(RoutedBytes{load, static_cast<int64_t>(step->bytes)}) : std::nullopt;
  };
  // A plan without a bound has room for the worst case.
  double own = loads.room.value_or(loads.worst);
  std::optional<RoutedBytes> few = sample(1), many = sample(own > 1 ? own : std::min(2.0, loads.worst));
  if (!few || !many)
    return std::nullopt;
  int64_t more = plan.whole.bytes - getBytesOnLine(*few, *many, own);
  auto getBytes = [&](double load) { return RoutedBytes{load, more + getBytesOnLine(*few, *many, load)}; };
  return RoutedMemory{getBytes(1), getBytes(loads.expected), getBytes(loads.worst)};
}
