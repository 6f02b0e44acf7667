//===- Evaluator.h - what a plan costs --------------------------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_EVALUATOR_H
#define MOE_LIB_PLANNER_EVALUATOR_H

#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Planner/Candidate.h"
#include "moe/Planner/Planner.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Simulator/Routing.h"

namespace mlir::moe {

/// The groups of one stage of a pipeline, as if it were all.
ParallelAttr getStageParallel(ParallelAttr parallel);

/// Compiles plans without a word, to compare them.
class Evaluator {
public:
  /// Plans are for options.parallel and options.cluster, in the order of launches that `options` say. What tokens
  /// choose is options.routing.
  explicit Evaluator(const PlanOptions &options);
  /// Leaves out the proof of plans (plan-verify), which the plan that is taken has when it is compiled in the end.
  void leaveOutProofs() { options.leaveOutProofs = true; }

  const PlanOptions &getOptions() const { return options; }

  class Plan;
  /// The first error goes to `reason`, which is left alone if it says something.
  std::optional<Plan> compile(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason);
  /// The same before its launches are in an order; null where it fails.
  OwningOpRef<ModuleOp> compileUnordered(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason);
  /// What compileUnordered() made, in an order of launches.
  std::optional<Plan> order(ModuleOp unordered, const ParsedSchedule &schedule, std::optional<OrderPolicy> order,
                            std::string &reason);
  /// The same in options.schedule, where what it leaves open is searched first.
  std::optional<Plan> search(ModuleOp graph, std::string &reason);

private:
  /// The closed form, which all plans share: they have as many ranks.
  llvm::Expected<const CostModel *> getModel();

  PlanOptions options;
  std::unique_ptr<CostModel> model;
};

/// A plan, with its costs. The evaluator must outlive it.
class Evaluator::Plan {
public:
  Plan(Evaluator &evaluator, OwningOpRef<ModuleOp> module) : evaluator(evaluator), module(std::move(module)) {}

  ModuleOp getModule() const { return const_cast<OwningOpRef<ModuleOp> &>(module).get(); }
  OwningOpRef<ModuleOp> release() { return std::move(module); }

  /// Of the rank that needs the most.
  ProgramMemory getMemory() const;
  /// "5.1 GB alive at matmul layer0, 2 GB of ..": the largest moment of that rank.
  std::string describePeak() const;
  /// Seconds of the busiest stream, which no order can go below.
  llvm::Expected<double> getBound();
  llvm::Expected<Prediction> predict();
  /// The launches of a step alone, without figures.
  llvm::Expected<SimResult> runStep();
  llvm::Expected<StepFigures> simulate();

private:
  /// Makes the trace where it is not there yet; returns the model that the plan runs on.
  llvm::Expected<const CostModel *> prepareStep();

  Evaluator &evaluator;
  OwningOpRef<ModuleOp> module;
  std::optional<RoutingTrace> trace; ///< what tokens choose; empty: evenly
};

/// The same of a plan that is there, compiled with `options`.
llvm::Expected<StepFigures> simulatePlan(OwningOpRef<ModuleOp> &plan, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_EVALUATOR_H
