//===- Evaluator.h - what a plan costs --------------------------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_EVALUATOR_H
#define MOE_LIB_PLANNER_EVALUATOR_H

#include "moe/Compiler/Schedule.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Planner/Candidate.h"
#include "moe/Planner/Planner.h"
#include "moe/Simulator/Prediction.h"

namespace mlir::moe {

/// The groups of one stage of a pipeline, as if it were all, with `dp` data-parallel ranks.
ParallelAttr getStageParallel(ParallelAttr parallel, int64_t dp);

/// Compiles plans to compare them, and reports nothing.
class Evaluator {
public:
  /// Takes the groups, the cluster, the order of launches and the routing of `options`.
  explicit Evaluator(const PlanOptions &options);

  const PlanOptions &getOptions() const { return options; }

  class Plan;
  /// Stores the first error in `reason`, unless it has one.
  std::optional<Plan> compile(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason);
  /// Compiles a plan whose launches have no order yet; null if that fails.
  OwningOpRef<ModuleOp> compileUnordered(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason);
  /// Orders the launches of a plan that compileUnordered() made.
  std::optional<Plan> order(ModuleOp unordered, const ParsedSchedule &schedule, std::optional<OrderPolicy> order,
                            std::string &reason);
  /// Compiles in options.schedule, after a search for its open parts.
  std::optional<Plan> search(ModuleOp graph, std::string &reason);

private:
  PlanOptions options;
  std::unique_ptr<CostModel> model; ///< model in closed form, which all plans share
};

/// A plan, with its costs. The evaluator must outlive it.
class Evaluator::Plan {
public:
  Plan(Evaluator &evaluator, OwningOpRef<ModuleOp> module) : evaluator(evaluator), module(std::move(module)) {}

  ModuleOp getModule() const { return const_cast<OwningOpRef<ModuleOp> &>(module).get(); }
  OwningOpRef<ModuleOp> release() { return std::move(module); }

  /// Memory of the rank that needs the most.
  ProgramMemory getMemory() const;
  /// "5.1 GB alive at matmul layer0, 2 GB of ..": the peak of that rank.
  std::string describePeak() const;
  /// Seconds of the busiest stream: no order takes less.
  llvm::Expected<double> getBound();
  /// The launches of a step alone, without figures.
  llvm::Expected<SimResult> runStep();
  llvm::Expected<StepFigures> simulate();

private:
  /// Makes the trace if there is none yet, and returns the model that the plan runs on.
  llvm::Expected<const CostModel *> prepareStep();

  Evaluator &evaluator;
  OwningOpRef<ModuleOp> module;
  std::optional<RoutingTrace> trace; ///< experts that tokens choose; empty: evenly
};

/// Simulates a plan that was compiled with `options`.
llvm::Expected<StepFigures> simulatePlan(OwningOpRef<ModuleOp> &plan, const PlanOptions &options);

/// MPipeMoE's Eq. 10: seconds of the first layer of `graph` by strategy, from None to S4. Fails without rates.
llvm::Expected<SmallVector<double, 5>> getStrategySeconds(ModuleOp graph, const ParsedSchedule &schedule,
                                                          const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_EVALUATOR_H
