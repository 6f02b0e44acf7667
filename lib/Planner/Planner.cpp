//===- Planner.cpp - the best plan of a model graph -----------------------===//
#include "moe/Planner/Planner.h"

#include "OpenChoices.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Planner/AutoSchedule.h"

using namespace mlir;
using namespace mlir::moe;

/// Compiles a plan without options.runPasses: it may need too much memory, and only the plan that is returned may be
/// seen.
static FailureOr<OwningOpRef<ModuleOp>> compileToMeasure(ModuleOp graph, const ParsedSchedule &schedule,
                                                         const PlanOptions &options) {
  PlanOptions unseen = options;
  unseen.runPasses = nullptr;
  // The plan that is returned gives the warnings.
  ScopedDiagnosticHandler quiet(graph.getContext(), [&](Diagnostic &diagnostic) {
    return success(options.runPasses && diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  return compileSchedule(graph, schedule, unseen);
}

/// The most bytes that devices of the pipeline may keep for gradients in a plan that fits; none if none is found. An
/// order knows only the values that it keeps, so that plans must tell how much room there is.
static std::optional<int64_t> findRoomToKeep(ModuleOp graph, const ParsedSchedule &schedule, PlanOptions options) {
  constexpr int64_t maxPlans = 7;
  options.runPasses = nullptr;
  options.reference = false;
  options.leaveOutProofs = true;
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  std::optional<int64_t> found;
  int64_t low = 0, high = options.memoryLimit;
  for (int64_t plan = 0; plan < maxPlans && low + 1 < high && !options.isStoppedEarly(); ++plan) {
    options.mostKept = low + (high - low) / 2;
    FailureOr<OwningOpRef<ModuleOp>> module = compileSchedule(graph, schedule, options);
    bool fits = succeeded(module) && getDeviceBytes(**module) <= options.memoryLimit;
    if (fits)
      found = options.mostKept;
    // The compilation fails if no order keeps so little.
    (fits || failed(module) ? low : high) = options.mostKept;
  }
  return found;
}

/// Compiles another plan instead of one that needs `bytes`, which is too much.
static FailureOr<OwningOpRef<ModuleOp>> compileToFit(ModuleOp graph, const ParsedSchedule &schedule,
                                                     const PlanOptions &options, int64_t bytes) {
  std::optional<int64_t> room;
  if (options.pipelineOrder == PipelineOrder::Search && options.parallel.getPp() > 1)
    room = findRoomToKeep(graph, schedule, options);
  if (!room)
    return searchToFit(graph, schedule, options, bytes);
  emitWarning(UnknownLoc::get(graph.getContext()))
      << "the plan of the fastest order of the pipeline needs " << bytes << " bytes a rank, more than the limit of "
      << options.memoryLimit << "; the order that is taken keeps at most " << *room << " bytes for gradients";
  PlanOptions limited = options;
  limited.mostKept = *room;
  return compileSchedule(graph, schedule, limited);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::planAndCompile(ModuleOp model, const PlanOptions &options) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(model.getContext(), options.schedule);
  if (failed(schedule))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> graph = prepareGraph(model, options);
  if (failed(graph))
    return failure();
  if (schedule->everything)
    return compileBest(**graph, options);
  if (schedule->isOpen())
    return searchSchedule(**graph, *schedule, options);
  if (options.stage != Stage::Plan || options.memoryLimit == 0)
    return compileSchedule(**graph, *schedule, options);
  FailureOr<OwningOpRef<ModuleOp>> module = compileToMeasure(**graph, *schedule, options);
  if (failed(module))
    return failure();
  int64_t bytes = getDeviceBytes(**module);
  if (bytes > options.memoryLimit)
    return compileToFit(**graph, *schedule, options, bytes);
  return options.runPasses ? compileSchedule(**graph, *schedule, options) : std::move(module);
}
