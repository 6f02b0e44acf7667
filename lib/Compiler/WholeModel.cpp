//===- WholeModel.cpp - what a whole model costs in a schedule ------------===//
#include "WholeModel.h"

#include "Search.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include "moe/Compiler/Memory.h"
#include "moe/Compiler/Report.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"

using namespace mlir;
using namespace mlir::moe;

CompileOptions mlir::moe::moveOptions(const CompileOptions &options, MLIRContext &context) {
  CompileOptions moved = options;
  ParallelAttr all = options.parallel;
  moved.parallel =
      ParallelAttr::get(&context, all.getWorld(), all.getPp(), all.getDp(), all.getMp(), all.getEp(), all.getEsp());
  return moved;
}

std::string mlir::moe::describePeak(func::FuncOp program) {
  std::string text;
  llvm::raw_string_ostream os(text);
  constexpr double giga = 1e-9;
  constexpr size_t shown = 3;
  for (plan::ArenaReport &arena : plan::reportMemory(program)) {
    if (arena.space != plan::Space::device || !arena.peak)
      continue;
    os << llvm::format("%.3f GB alive at ", static_cast<double>(arena.liveBytes) * giga) << arena.peak.describe();
    for (plan::LiveBuffer &buffer : llvm::MutableArrayRef(arena.live).take_front(shown))
      os << llvm::format(", %.3f GB of ", static_cast<double>(buffer.bytes) * giga) << buffer.writer.describe();
  }
  return text;
}

FewMicroBatches::FewMicroBatches(const CompileOptions &options) {
  int64_t pp = options.parallel.getPp(), all = options.microBatches;
  count = std::min(all, options.interleave > 1 ? 2 * pp : pp + 2);
  part = static_cast<double>(all + pp - 1) / static_cast<double>(count + pp - 1);
}

/// Of the plan of a step of few micro-batches; the whole step takes `part` times as long.
static void measurePlan(ModuleOp plan, const CompileOptions &options, double part, WholeModel &whole) {
  func::FuncOp largest = getLargestProgram(plan);
  whole.memory = getMemory(largest).getDeviceBytes();
  if (options.memoryLimit > 0 && whole.memory > options.memoryLimit) {
    whole.peak = describePeak(largest);
    return;
  }
  llvm::Expected<Prediction> prediction = predict(plan, "", *options.cluster, options.routing);
  if (!prediction)
    whole.error = llvm::toString(prediction.takeError());
  else
    whole.seconds = prediction->result.seconds * part;
}

WholeModel mlir::moe::measureModel(StringRef graph, const CompileOptions &options) {
  MLIRContext context(options.parallel.getContext()->getDialectRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  WholeModel whole;
  // What there is to say is said of the one that is taken.
  ScopedDiagnosticHandler keep(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && whole.error.empty())
      whole.error = diagnostic.str();
    return success();
  });
  CompileOptions few = moveOptions(options, context);
  few.reference = false;
  FewMicroBatches microBatches(options);
  few.microBatches = microBatches.count;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(graph, &context);
  FailureOr<ParsedSchedule> schedule = parseSchedule(&context, options.schedule);
  if (!module || failed(schedule))
    return whole;
  FailureOr<OwningOpRef<ModuleOp>> plan = compileSchedule(*module, *schedule, few);
  if (succeeded(plan))
    measurePlan(**plan, few, microBatches.part, whole);
  return whole;
}
