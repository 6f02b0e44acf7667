//===- Planner.h - the best plan of a model graph ---------------*- C++ -*-===//
//
// The planner searches what a request leaves open, by compiling and simulating candidates.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_PLANNER_H
#define MOE_PLANNER_PLANNER_H

#include <functional>
#include <string>

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {
struct PlanRules;
struct ScheduleExplanation;
struct RoutingSource;

/// Adds to the compiler's options what the planner decides, and how.
struct PlanOptions : CompileOptions {
  PlanOptions() { schedule = "baseline"; }

  /// Experts that tokens choose, for 'auto'. Null: they choose evenly.
  const RoutingSource *routing = nullptr;
  /// Plans that may be chosen. Null: all.
  const PlanRules *rules = nullptr;
  /// Seconds of groups, by the objective, that another search has found. Groups that are slower by their estimates are
  /// not compiled. 0: none.
  double secondsToBeat = 0;
  /// Lets 'auto' simulate every candidate, also those that cannot be the best.
  bool exhaustive = false;
  /// Lets 'auto' also find changes that would change its choice, which takes longer than the choice.
  bool findChanges = false;
  /// Called by 'auto' after each schedule, with its results and the fewest seconds so far. May be null.
  std::function<void(const ScheduleExplanation &, double)> showProgress;
  /// Called by 'auto', and while groups are compared, on any thread. Once true, the best so far is taken. May be null.
  std::function<bool()> isStopped;
  bool isStoppedEarly() const { return isStopped && isStopped(); }
};

/// Compiles a model graph after deciding what options.schedule leaves open. Errors are reported at the ops.
FailureOr<OwningOpRef<ModuleOp>> planAndCompile(ModuleOp graph, const PlanOptions &options);

/// Compiles a graph of that shape, and appends its plans to `merged` as variants (moe/Conversion/Variants.h): one of
/// options.schedule; for 'parm-auto' one for S1 and one for S2, with Eq. 13 and 14 as their seconds (Parm); for
/// 'chunks:auto' one for each chunk count, with the seconds of a predicted step. Errors are reported at the ops.
LogicalResult compileVariants(ModuleOp graph, const PlanOptions &options, int64_t batch, int64_t sequence,
                              ModuleOp merged);

/// Differences between the graphs of a model. Absent values are as the user asks for them.
struct ModelForm {
  int64_t dataParallel = 1;
  std::optional<int64_t> batch = {};  ///< sequences of each data-parallel rank in a micro-batch
  std::optional<double> maxLoad = {}; ///< most rows of a dropless layer on a rank, as a multiple of the even load
  bool isBf16 = false;
  SmallVector<int64_t> blocks = {}; ///< blocks of a whole model that are kept, by ModelSource::kinds; empty: all
};

/// Reads the model into a context, on any thread. If no bound of dropless rows is given, the module has it as
/// `moe.default_max_load`. Errors are reported.
using ModelReader = std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &, const ModelForm &)>;

/// The model of which a plan is made.
struct ModelSource {
  ModelReader read;
  /// For each block of a whole model, the first that is like it; empty if blocks cannot be taken out.
  std::vector<int64_t> kinds;
  /// Whether the graph has the tokens of the whole world for any number of ranks. Then `batch` has no effect.
  bool isFixed = false;
};

} // namespace mlir::moe

#endif // MOE_PLANNER_PLANNER_H
