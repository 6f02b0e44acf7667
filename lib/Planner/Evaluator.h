//===- Evaluator.h - what a graph costs in a schedule -----------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_EVALUATOR_H
#define MOE_LIB_PLANNER_EVALUATOR_H

#include "LayerSamples.h"
#include "moe/Pipeline/Schedule.h"

#include "moe/Cost/CostModel.h"
#include "moe/Planner/AutoSchedule.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Simulator/Routing.h"

namespace mlir::moe {

/// What a graph, or several that stand for a model's layers, cost in a schedule.
class Evaluator {
public:
  /// `tokens` times as many as the graph has; isLegal() says whether these can be.
  Evaluator(ModuleOp graph, const CompileOptions &options, double tokens = 1);

  bool isLegal() const { return legal; }

  /// Whether this is the whole model, so that its memory is the model's.
  bool isWhole() const { return samples.empty(); }
  /// Applies `schedule` in the program's order: verdict, reason, bound and memory of `candidate`. The plans stay until
  /// the next call.
  void apply(const ParsedSchedule &schedule, AutoCandidate &candidate);
  /// Simulates what was applied, in the candidate's order or what it would be compiled in by itself.
  void simulate(const ParsedSchedule &schedule, AutoCandidate &candidate);
  /// What was applied, as text: two schedules may come to the same.
  std::string getText() const;

private:
  FailureOr<OwningOpRef<ModuleOp>> compileQuietly(ModuleOp graph, const ParsedSchedule &schedule,
                                                  std::optional<OrderPolicy> order, std::string &reason);
  /// Of the plans; where that is over the limit `reason` says what holds the peak.
  void measureMemory(AutoCandidate &candidate);
  llvm::Error addBound(AutoCandidate &candidate);
  bool compileAll(const ParsedSchedule &schedule, std::optional<OrderPolicy> order, AutoCandidate &candidate);

  /// Of the closed form: all plans are of as many ranks.
  llvm::Expected<const CostModel *> getModel();

  struct Plan {
    OwningOpRef<ModuleOp> module;
    double count = 1;                 ///< of these in the model
    std::vector<SimProgram> programs; ///< of the module; none where nobody asked yet
    RoutingTrace trace;               ///< what its tokens choose; empty: evenly
  };
  llvm::Error addPrograms(Plan &plan) const;
  /// Takes the plan's programs.
  llvm::Expected<Prediction> predictOne(Plan &plan);

  ModuleOp graph;
  CompileOptions options;
  /// Of the model: a sample is of one micro-batch, and a stage's share of the layers.
  int64_t microBatches, stages;
  OwningOpRef<ModuleOp> scaled; ///< of which `graph` is, with other tokens
  bool legal = true;
  SmallVector<LayerSample> samples;
  SmallVector<Plan> plans;
  std::unique_ptr<CostModel> model;
};

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_EVALUATOR_H
