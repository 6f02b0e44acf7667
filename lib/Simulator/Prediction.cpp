//===- Prediction.cpp - predicted time of a plan on a cluster -------------===//
#include "moe/Simulator/Prediction.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

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
  header.host = cluster.host.name;
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

llvm::Expected<RoutingTrace> mlir::moe::makeTrace(ModuleOp plan, const RoutingSource *routing) {
  if (!routing)
    return RoutingTrace();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan);
  if (!programs)
    return programs.takeError();
  return routing->getTrace(*programs, programs->back().firstRank + programs->back().numRanks);
}

llvm::Expected<Prediction> mlir::moe::predict(ModuleOp plan, StringRef planName, const ClusterProfile &cluster,
                                              const RoutingSource *routing) {
  llvm::Expected<RoutingTrace> trace = makeTrace(plan, routing);
  if (!trace)
    return trace.takeError();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Once);
  if (!programs)
    return programs.takeError();
  int64_t ranks = programs->back().firstRank + programs->back().numRanks;
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  return predict(plan, planName, **model, &*trace);
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
  return prediction;
}
