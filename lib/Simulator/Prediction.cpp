//===- Prediction.cpp - predicted time of a plan on a cluster -------------===//
#include "moe/Simulator/Prediction.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include "llvm/ADT/Sequence.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

SimHeader mlir::moe::makeSimHeader(ModuleOp plan, StringRef planName, const ClusterProfile &cluster) {
  auto getAttribute = [&](StringRef name) {
    auto text = plan->getAttrOfType<StringAttr>(name);
    return text ? text.str() : std::string("-");
  };
  SimHeader header;
  header.plan = planName.str();
  header.cluster = cluster.name;
  header.framework = cluster.framework;
  header.precision = cluster.precision.name;
  header.schedule = getAttribute(plan::kScheduleAttrName);
  header.mode = getAttribute(plan::kModeAttrName);
  header.load = describeDefaultMaxLoad(plan);
  header.devicesPerNode = cluster.devicesPerNode;
  header.memoryBytes = cluster.getPlanBytes();
  return header;
}

StepWork mlir::moe::getStepWork(ModuleOp plan) {
  StepWork work;
  if (auto flops = plan->getAttrOfType<FloatAttr>(plan::kModelFlopsAttrName))
    work.modelFlops = flops.getValueAsDouble();
  if (auto tokens = plan->getAttrOfType<IntegerAttr>(plan::kTokensAttrName))
    work.tokens = static_cast<double>(tokens.getInt());
  return work;
}

/// Scales `counts` of experts in proportion, so that `tokens` tokens choose `topK` different experts each. The largest
/// remainders round up first. A token chooses an expert at most once, so the excess goes to the next expert.
static std::vector<int32_t> scaleCounts(llvm::ArrayRef<int32_t> counts, int64_t tokens, int64_t topK) {
  double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  int64_t left = tokens * topK;
  std::vector<int32_t> scaled(counts.size());
  std::vector<double> remainders(counts.size());
  for (auto [count, result, remainder] : llvm::zip_equal(counts, scaled, remainders)) {
    double share = total > 0 ? count / total * static_cast<double>(tokens * topK) : 0;
    result = static_cast<int32_t>(std::min(share, static_cast<double>(tokens)));
    remainder = share - result;
    left -= result;
  }
  auto order = llvm::to_vector(llvm::seq<size_t>(0, counts.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  while (left > 0)
    for (size_t expert : order)
      if (left > 0 && scaled[expert] < tokens) {
        ++scaled[expert];
        --left;
      }
  return scaled;
}

llvm::Expected<RoutingTrace> mlir::moe::makeTrace(ModuleOp plan, const RoutingSource *routing) {
  RoutingTrace fitted;
  if (!routing)
    return fitted;
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan);
  if (!programs)
    return programs.takeError();
  int64_t ranks = programs->back().firstRank + programs->back().numRanks;
  llvm::Expected<RoutedShape> shape = getRoutedShape(*programs);
  if (!shape)
    return shape.takeError();
  if (shape->experts == 0)
    return fitted;
  auto layers = static_cast<int64_t>(listRoutedLayers(*programs).size());
  if (!routing->trace)
    return routing->synthetic.generate(ranks, layers, shape->experts, shape->tokens, shape->topK);
  const RoutingTrace &trace = *routing->trace;
  if (trace.getNumExperts() != shape->experts)
    return llvm::createStringError("expected a routing trace of " + Twine(shape->experts) + " experts but got " +
                                   Twine(trace.getNumExperts()));
  int64_t iteration = trace.getIterations().front();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::vector<int32_t> *counts = trace.getCounts(iteration, std::min(layer, trace.getNumLayers() - 1));
    if (!counts)
      return llvm::createStringError("expected layer " + Twine(layer) + " in the routing trace's first iteration");
    std::vector<int32_t> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t from = rank * trace.getNumRanks() / ranks;
      llvm::append_range(
          all, scaleCounts(ArrayRef(*counts).slice(from * shape->experts, shape->experts), shape->tokens, shape->topK));
    }
    fitted.setCounts(iteration, layer, ranks, shape->experts, std::move(all));
  }
  return fitted;
}

llvm::Expected<Prediction> mlir::moe::predict(ModuleOp plan, StringRef planName, const ClusterProfile &cluster) {
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Once);
  if (!programs)
    return programs.takeError();
  int64_t ranks = programs->back().firstRank + programs->back().numRanks;
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  return predict(plan, planName, **model);
}

SimOptions mlir::moe::getSimOptions(const RoutingTrace *routing) {
  SimOptions options;
  if (routing && routing->getNumLayers() > 0) {
    options.routing = routing;
    options.iteration = routing->getIterations().front();
  }
  return options;
}

llvm::Expected<Prediction> mlir::moe::predict(ModuleOp plan, StringRef planName, const CostModel &model,
                                              const RoutingTrace *routing) {
  llvm::Expected<SimResult> result = simulate(plan, model, getSimOptions(routing));
  if (!result)
    return result.takeError();
  Prediction prediction{makeSimHeader(plan, planName, model.getProfile()), std::move(*result), {}};
  prediction.header.form = "closed-form";
  prediction.header.routing = routing && routing->getNumLayers() > 0 ? "trace" : "even";
  prediction.report = makeReport(prediction.result, getStepWork(plan));
  setMeasured(prediction.report, prediction.result, model.getProfile(),
              /*hasEvenRouting=*/prediction.header.routing == "even");
  return prediction;
}
