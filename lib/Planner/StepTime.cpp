//===- StepTime.cpp - what a whole model costs in a schedule --------------===//
#include "StepTime.h"

#include "OpenChoices.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"
#include "moe/Simulator/Prediction.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

CompileOptions mlir::moe::moveOptions(const CompileOptions &options, MLIRContext &context) {
  context.loadDialect<MoeDialect>();
  CompileOptions moved = options;
  moved.runPasses = nullptr;
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

StepTime mlir::moe::getStepTime(const SimResult &step, const CompileOptions &options) {
  StepTime time{step.seconds, 0};
  const SimProgram &program = step.programs.front();
  const SimRank *rank = &*llvm::find_if(step.ranks, [](const SimRank &one) { return one.program == 0; });
  std::vector<double> sends;
  for (const SimTime &one : step.times) {
    if (&step.ranks[one.rank] != rank)
      continue;
    int32_t group = program.launches[one.launch].group;
    if (group >= 0 && program.groups[group].isChannel() && program.groups[group].isSender(rank->rank))
      sends.push_back(one.end);
  }
  // Several for each micro-batch, where several values are handed over.
  auto each = static_cast<ptrdiff_t>(sends.size()) / options.microBatches;
  if (options.interleave > 1 || options.microBatches < 3 || each == 0)
    return time;
  auto sum = [&](ptrdiff_t last) {
    return std::accumulate(sends.end() - (last + 1) * each, sends.end() - last * each, 0.0);
  };
  time.interval = (sum(1) - sum(2)) / static_cast<double>(each);
  return time;
}

FewMicroBatches::FewMicroBatches(const CompileOptions &options) : all(options.microBatches) {
  int64_t pp = options.parallel.getPp();
  // After pp micro-batches the first stage is at one forward and one backward in turn, and the interval is that after
  // the next but one. Interleaved there are as many as a multiple of pp.
  int64_t filled = options.interleave > 1 || pp == 1 ? 2 * pp : pp + 4;
  count = std::min(all, filled);
  more = options.interleave > 1 ? 3 * pp : count + 1;
}

std::optional<double> FewMicroBatches::getSeconds(StepTime few,
                                                  function_ref<std::optional<StepTime>(int64_t)> measure) const {
  if (count == all)
    return few.seconds;
  if (few.interval == 0) {
    std::optional<StepTime> longer = measure(more);
    if (!longer)
      return std::nullopt;
    few.interval = (longer->seconds - few.seconds) / static_cast<double>(more - count);
  }
  return few.seconds + static_cast<double>(all - count) * few.interval;
}

namespace {
/// A model, compiled and simulated in its own context.
class ModelMeasure {
public:
  ModelMeasure(StringRef graph, const CompileOptions &options);

  WholeModel measure();

private:
  /// Of a step of so many micro-batches; nothing, and a reason, where it does not fit or cannot be.
  std::optional<StepTime> measureStep(int64_t microBatches);

  MLIRContext context;
  CompileOptions options;
  WholeModel whole;
  OwningOpRef<ModuleOp> graph;
};
} // namespace

ModelMeasure::ModelMeasure(StringRef graph, const CompileOptions &options)
    : context(options.parallel.getContext()->getDialectRegistry(), MLIRContext::Threading::DISABLED),
      options(moveOptions(options, context)) {
  this->options.reference = false;
  this->graph = parseSourceString<ModuleOp>(graph, &context);
}

std::optional<StepTime> ModelMeasure::measureStep(int64_t microBatches) {
  CompileOptions few = options;
  few.microBatches = microBatches;
  FailureOr<ParsedSchedule> schedule = parseSchedule(&context, options.schedule);
  if (failed(schedule))
    return std::nullopt;
  FailureOr<OwningOpRef<ModuleOp>> plan = compileSchedule(*graph, *schedule, few);
  if (failed(plan))
    return std::nullopt;
  func::FuncOp largest = getLargestProgram(**plan);
  whole.memory = std::max(whole.memory, getMemory(largest).getDeviceBytes());
  if (options.memoryLimit > 0 && whole.memory > options.memoryLimit) {
    whole.peak = describePeak(largest);
    return std::nullopt;
  }
  llvm::Expected<Prediction> prediction = predict(**plan, "", *options.cluster, options.routing);
  if (prediction)
    return getStepTime(prediction->result, few);
  whole.error = llvm::toString(prediction.takeError());
  return std::nullopt;
}

WholeModel ModelMeasure::measure() {
  // What there is to say is said of the one that is taken.
  ScopedDiagnosticHandler keep(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && whole.error.empty())
      whole.error = diagnostic.str();
    return success();
  });
  FewMicroBatches microBatches(options);
  if (std::optional<StepTime> few = measureStep(microBatches.getCount()))
    if (std::optional<double> seconds =
            microBatches.getSeconds(*few, [&](int64_t count) { return measureStep(count); }))
      whole.seconds = *seconds;
  return std::move(whole);
}

WholeModel mlir::moe::measureModel(StringRef graph, const CompileOptions &options) {
  return ModelMeasure(graph, options).measure();
}
