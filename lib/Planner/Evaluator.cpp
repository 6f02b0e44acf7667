//===- Evaluator.cpp - what a graph costs in a schedule -------------------===//
#include "Evaluator.h"

#include "OpenChoices.h"
#include "StepTime.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"

using namespace mlir;
using namespace mlir::moe;

Evaluator::Evaluator(ModuleOp whole, const CompileOptions &options, double tokens)
    : graph(whole), options(options), microBatches(options.microBatches), stages(options.parallel.getPp()) {
  this->options.stage = Stage::Plan;
  this->options.reference = false;
  auto scale = [&](OwningOpRef<ModuleOp> &to, ModuleOp from) {
    FailureOr<OwningOpRef<ModuleOp>> other = scaleTokens(from, tokens);
    legal &= succeeded(other);
    if (succeeded(other))
      to = std::move(*other);
  };
  if (isOneLayer(whole)) {
    if (tokens != 1)
      scale(scaled, whole);
    if (scaled)
      graph = *scaled;
    return;
  }
  this->options = getSampleOptions(options);
  // The launches of a pipeline's stages stay in the program's order.
  if (stages > 1 && !options.order)
    this->options.order = OrderPolicy::Program;
  samples = sampleLayers(whole);
  for (LayerSample &sample : samples) {
    (*sample.graph)->setAttr(kParallelAttrName, this->options.parallel);
    if (tokens != 1)
      scale(sample.graph, *sample.graph);
  }
}

/// The first error is the reason.
FailureOr<OwningOpRef<ModuleOp>> Evaluator::compileQuietly(ModuleOp graph, const ParsedSchedule &schedule,
                                                           std::optional<OrderPolicy> order, std::string &reason) {
  ScopedDiagnosticHandler keep(graph.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && reason.empty())
      reason = diagnostic.str();
    return success();
  });
  // As a user would write it: what makes no sense together is refused there.
  FailureOr<ParsedSchedule> known = parseSchedule(graph.getContext(), schedule.getName());
  if (failed(known))
    return failure();
  CompileOptions ordered = options;
  ordered.order = order;
  return compileSchedule(graph, *known, ordered);
}

/// Plans of all that the schedule changes.
bool Evaluator::compileAll(const ParsedSchedule &schedule, std::optional<OrderPolicy> order, AutoCandidate &candidate) {
  plans.clear();
  auto add = [&](ModuleOp one, double count) {
    FailureOr<OwningOpRef<ModuleOp>> plan = compileQuietly(one, schedule, order, candidate.reason);
    if (failed(plan))
      return false;
    if (!isWhole())
      divideGradientSums(**plan, microBatches);
    plans.push_back({std::move(*plan), count, {}, {}});
    return true;
  };
  return isWhole() ? add(graph, 1) : llvm::all_of(samples, [&](LayerSample &sample) {
    return add(*sample.graph, static_cast<double>(sample.count) / static_cast<double>(stages));
  });
}

void Evaluator::measureMemory(AutoCandidate &candidate) {
  candidate.memory = 0;
  for (Plan &plan : plans) {
    func::FuncOp largest = getLargestProgram(*plan.module);
    candidate.memory += static_cast<int64_t>(static_cast<double>(getMemory(largest).getDeviceBytes()) * plan.count);
    if (options.memoryLimit > 0 && candidate.memory > options.memoryLimit)
      candidate.reason = describePeak(largest);
  }
}

llvm::Expected<const CostModel *> Evaluator::getModel() {
  if (!model) {
    llvm::Expected<std::unique_ptr<CostModel>> made =
        CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
    if (!made)
      return made.takeError();
    model = std::move(*made);
  }
  return model.get();
}

llvm::Error Evaluator::addPrograms(Plan &plan) const {
  if (!plan.programs.empty())
    return llvm::Error::success();
  if (llvm::Error error = makeSimPrograms(*plan.module).moveInto(plan.programs))
    return error;
  if (!options.routing)
    return llvm::Error::success();
  return options.routing->getTrace(plan.programs, options.parallel.getWorld()).moveInto(plan.trace);
}

llvm::Error Evaluator::addBound(AutoCandidate &candidate) {
  llvm::Expected<const CostModel *> model = getModel();
  if (!model)
    return model.takeError();
  for (Plan &plan : plans) {
    if (llvm::Error error = addPrograms(plan))
      return error;
    llvm::Expected<double> bound = getStepBound(plan.programs, **model, getSimOptions(&plan.trace));
    if (!bound)
      return bound.takeError();
    candidate.bound += *bound * plan.count;
  }
  return llvm::Error::success();
}

void Evaluator::apply(const ParsedSchedule &schedule, AutoCandidate &candidate) {
  candidate.verdict = Verdict::Illegal;
  if (!compileAll(schedule, OrderPolicy::Program, candidate))
    return;
  if (llvm::Error error = addBound(candidate)) {
    candidate.reason = llvm::toString(std::move(error));
    return;
  }
  measureMemory(candidate);
  candidate.verdict = Verdict::Bounded;
}

std::string Evaluator::getText() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Plan &plan : plans)
    for (func::FuncOp program : plan::getRankPrograms(const_cast<OwningOpRef<ModuleOp> &>(plan.module).get()))
      program.print(os, OpPrintingFlags().useLocalScope());
  return text;
}

/// "compute 83%".
static std::string describeLimit(const SimReport &report, double seconds) {
  const StreamUse *most = nullptr;
  for (const StreamUse &use : report.mean.streams)
    if (!most || use.busy > most->busy)
      most = &use;
  std::string text;
  if (most && seconds > 0)
    llvm::raw_string_ostream(text) << most->stream << llvm::format(" %.0f%%", 100 * most->busy / seconds);
  return text;
}

llvm::Expected<Prediction> Evaluator::predictOne(Plan &plan) {
  llvm::Expected<const CostModel *> model = getModel();
  if (!model)
    return model.takeError();
  if (llvm::Error error = addPrograms(plan))
    return error;
  return predict(*plan.module, "", std::exchange(plan.programs, {}), **model, &plan.trace);
}

void Evaluator::simulate(const ParsedSchedule &schedule, AutoCandidate &candidate) {
  std::optional<OrderPolicy> order = candidate.order ? candidate.order : options.order;
  // Without anything to overlap the program's order is what it is compiled in by itself.
  bool isOrdered = order ? *order == OrderPolicy::Program : !schedule.canOverlap();
  if (!isOrdered && !compileAll(schedule, order, candidate)) {
    candidate.verdict = Verdict::Illegal;
    return;
  }
  measureMemory(candidate);
  double longest = 0, uncertain = 0;
  for (Plan &plan : plans) {
    llvm::Expected<Prediction> prediction = predictOne(plan);
    double count = plan.count;
    if (!prediction) {
      candidate.verdict = Verdict::Illegal;
      candidate.reason = llvm::toString(prediction.takeError());
      return;
    }
    candidate.seconds += prediction->result.seconds * count;
    candidate.exposed += prediction->report.mean.exposedCommunication * count;
    uncertain += prediction->getUncertainty() * prediction->result.seconds * count;
    for (const KernelUse &kernel : prediction->report.kernels) {
      candidate.flops += kernel.flops * count;
      if (kernel.resource == Resource::Network)
        candidate.bytesSent += kernel.bytes * count;
    }
    if (double share = prediction->result.seconds * count; share > longest) {
      longest = share;
      candidate.limit = describeLimit(prediction->report, prediction->result.seconds);
    }
  }
  candidate.uncertainty = candidate.seconds > 0 ? uncertain / candidate.seconds : 0;
  candidate.verdict = Verdict::Simulated;
}
