//===- PlanChecks.cpp - warnings about plans, and memory ------------------===//
#include "moe/Planner/Remedies.h"

#include "llvm/Support/FormatVariadic.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"

using namespace mlir;
using namespace mlir::moe;

/// The share of a step in which each stage of a pipeline waits while it is filled and emptied.
static double getBubble(int64_t pp, int64_t interleave, int64_t microBatches) {
  double idle = static_cast<double>(pp - 1) / static_cast<double>(interleave);
  return idle / (static_cast<double>(microBatches) + idle);
}

void mlir::moe::warnOfBubble(const PlanOptions &options) {
  // Micro-batches that are side by side pass the stages as one.
  int64_t pp = options.parallel.getPp(), together = options.sideBySide;
  int64_t few = options.microBatches, enough = 4 * pp * together;
  if (few >= pp * together)
    return;
  auto percent = [&](int64_t microBatches) {
    return llvm::formatv("{0:F0}%", 100 * getBubble(pp, options.interleave, microBatches / together)).str();
  };
  emitWarning(UnknownLoc::get(options.parallel.getContext()))
      << "with " << few << (few == 1 ? " micro-batch" : " micro-batches") << ", each of the pipeline's " << pp
      << " stages waits about " << percent(few) << " of the step; --micro-batches=" << enough
      << ", or a --global-batch that makes as many, reduces that to " << percent(enough);
}

void mlir::moe::warnOfNoExperts(ModuleOp graph, const PlanOptions &options) {
  if (graph.walk([](LayerOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return;
  ParallelAttr parallel = options.parallel;
  auto warn = [&] { return emitWarning(UnknownLoc::get(graph.getContext())) << "the model has no MoE layer, so "; };
  if (parallel.getEp() > 1 || parallel.getEsp() > 1)
    warn() << "ep = " << parallel.getEp() << " and esp = " << parallel.getEsp()
           << " have no effect; --parallel=pp=" << parallel.getPp() << ",dp=" << parallel.getDp()
           << (parallel.getCp() > 1 ? ",cp=" + std::to_string(parallel.getCp()) : "") << ",mp=" << parallel.getMp()
           << " is the same";
  if (options.schedule != "baseline" && options.schedule != "auto")
    warn() << "--schedule=" << options.schedule << " has no effect; leave it out";
}

void mlir::moe::noteAuxiliaryLoss(ModuleOp graph, const PlanOptions &options) {
  GroupAttr tokens = options.parallel.getTokenGroup();
  bool isDivided = false;
  // A graph of layers alone returns the loss, and adds it to nothing.
  auto isAdded = [](Operation *user) { return !user->hasTrait<OpTrait::IsTerminator>(); };
  graph.walk([&](LayerOp layer) {
    isDivided |=
        static_cast<int64_t>(layer.getGroups()) < tokens.getSize() && llvm::any_of(layer.getAux().getUsers(), isAdded);
  });
  if (options.train && isDivided)
    emitRemark(UnknownLoc::get(graph.getContext()))
        << "the auxiliary loss is the mean over " << tokens.getSize()
        << " ranks of the losses of their own tokens, so that its value depends on dp and cp";
}

/// The memory that the plan needs and the cluster has, if it needs more.
static std::optional<std::string> findShortage(ModuleOp plan, const ClusterProfile &cluster) {
  auto parallel = plan->getAttrOfType<ParallelAttr>(kParallelAttrName);
  if (!parallel || plan::getRankPrograms(plan).empty())
    return std::nullopt;
  func::FuncOp program = getLargestProgram(plan);
  ProgramMemory memory = getMemory(program);
  constexpr double giga = 1e9;
  const double available = cluster.getPlanBytes() / giga;
  if (!cluster.processors.count) {
    const double needed = static_cast<double>(memory.getDeviceBytes()) / giga;
    if (needed <= available)
      return std::nullopt;
    std::string text =
        llvm::formatv("the plan needs {0:F1} GB on each device, but a device of cluster '{1}' has {2:F1} GB", needed,
                      cluster.name, available);
    if (cluster.reservedBytes > 0)
      text += llvm::formatv(" for plans ({0:F1} GB less {1:F1} GB for the driver and libraries)",
                            cluster.memoryBytes / giga, cluster.reservedBytes / giga);
    return text;
  }
  // Ranks that share processors share the memory of their machine, too. Plans have no further optimizer there.
  const int64_t ranks = std::min(parallel.getWorld(), cluster.devicesPerNode);
  const double ofRank = static_cast<double>(memory.getPlanBytes() + memory.pinned) / giga;
  const double needed = ofRank * static_cast<double>(ranks);
  if (needed <= available)
    return std::nullopt;
  return llvm::formatv("the plan needs {0:F1} GB on one machine ({1} rank{2} of {3:F1} GB), but a machine of cluster "
                       "'{4}' has {5:F1} GB",
                       needed, ranks, ranks > 1 ? "s" : "", ofRank, cluster.name, available)
      .str();
}

void mlir::moe::warnOfMemory(ModuleOp plan, const ClusterProfile &cluster) {
  if (std::optional<std::string> shortage = findShortage(plan, cluster))
    emitWarning(UnknownLoc::get(plan.getContext())) << *shortage;
}

LogicalResult mlir::moe::checkMemory(ModuleOp plan, const ClusterProfile &cluster,
                                     function_ref<std::string(int64_t bytes, int64_t limit)> describeRemedies) {
  // The memory of a host is not known here: moe-run checks it.
  if (cluster.processors.count > 0) {
    warnOfMemory(plan, cluster);
    return success();
  }
  std::optional<std::string> shortage = findShortage(plan, cluster);
  if (!shortage)
    return success();
  std::string report;
  llvm::raw_string_ostream stream(report);
  plan::printMemory(getLargestProgram(plan), stream);
  std::string remedies = describeRemedies(getDeviceBytes(plan), static_cast<int64_t>(cluster.getPlanBytes()));
  InFlightDiagnostic error = emitError(UnknownLoc::get(plan.getContext())) << *shortage;
  error.attachNote() << report;
  if (!remedies.empty())
    error.attachNote() << remedies;
  return error;
}
