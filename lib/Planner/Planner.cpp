//===- Planner.cpp - the best plan of a model graph -----------------------===//
#include "moe/Planner/Planner.h"

#include "OpenChoices.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Planner/AutoSchedule.h"

using namespace mlir;
using namespace mlir::moe;

/// Whether this is the plan that is returned is not known before: who runs passes gets the next one, if it is.
static FailureOr<OwningOpRef<ModuleOp>> compileToMeasure(ModuleOp graph, const ParsedSchedule &schedule,
                                                         const CompileOptions &options) {
  CompileOptions unseen = options;
  unseen.runPasses = nullptr;
  // Warnings come from the plan that is returned.
  ScopedDiagnosticHandler quiet(graph.getContext(), [&](Diagnostic &diagnostic) {
    return success(options.runPasses && diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  return compileSchedule(graph, schedule, unseen);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compile(ModuleOp model, const CompileOptions &options) {
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
  int64_t bytes = getMemory(getLargestProgram(**module)).getDeviceBytes();
  if (bytes > options.memoryLimit)
    return searchToFit(**graph, *schedule, options, bytes);
  return options.runPasses ? compileSchedule(**graph, *schedule, options) : std::move(module);
}
