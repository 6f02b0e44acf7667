//===- ModelStep.cpp - a step of a whole model ----------------------------===//
#include "ModelStep.h"

#include "mlir/Parser/Parser.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Simulator/Report.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

GraphReader mlir::moe::readText(StringRef graph) {
  return [graph](MLIRContext &context) -> FailureOr<OwningOpRef<ModuleOp>> {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(graph, &context);
    if (!module)
      return failure();
    return module;
  };
}

namespace {
/// A model in a context of its own.
class ModelMeasure {
public:
  ModelMeasure(const GraphReader &read, const PlanOptions &options, std::string &reason);

  /// Measures a step of so many micro-batches. A plan of more than `limit` bytes is not simulated; 0: any is.
  std::optional<WholeModel> measure(int64_t microBatches, int64_t limit = 0);
  std::optional<SampledParts> sampleParts();

private:
  std::optional<Evaluator::Plan> compile(PlanOptions few);

  MLIRContext context;
  PlanOptions options;
  std::string &reason;
  FailureOr<OwningOpRef<ModuleOp>> graph = failure();
  std::optional<Evaluator> evaluator; ///< evaluator of the last plan
};
} // namespace

ModelMeasure::ModelMeasure(const GraphReader &read, const PlanOptions &asked, std::string &reason)
    : context(asked.parallel.getContext()->getDialectRegistry(), MLIRContext::Threading::DISABLED), options(asked),
      reason(reason) {
  context.loadDialect<MoeDialect>();
  ParallelAttr all = asked.parallel;
  options.parallel = ParallelAttr::get(&context, all.getWorld(), all.getPp(), all.getDp(), all.getMp(), all.getEp(),
                                       all.getEsp(), all.getCp());
  FirstErrorHandler keep(&context, reason);
  graph = read(context);
}

std::optional<Evaluator::Plan> ModelMeasure::compile(PlanOptions few) {
  if (failed(graph))
    return std::nullopt;
  // The plan is only compared. A search within a compilation compiles its choice again.
  few.leaveOutProofs |= few.memoryLimit == 0 && few.schedule != "auto";
  return evaluator.emplace(few).search(**graph, reason);
}

std::optional<WholeModel> ModelMeasure::measure(int64_t microBatches, int64_t limit) {
  PlanOptions few = options;
  few.microBatches = microBatches;
  std::optional<Evaluator::Plan> plan = compile(few);
  if (!plan)
    return std::nullopt;
  WholeModel whole;
  whole.memory = plan->getMemory();
  whole.step.bytes = whole.memory.getDeviceBytes();
  if (auto schedule = plan->getModule()->getAttrOfType<StringAttr>(plan::kScheduleAttrName))
    whole.schedule = schedule.str();
  if (limit > 0 && whole.step.bytes > limit) {
    whole.peak = plan->describePeak();
    return whole;
  }
  llvm::Expected<StepFigures> step = plan->simulate();
  if (!step) {
    reason = llvm::toString(step.takeError());
    return std::nullopt;
  }
  whole.step = std::move(*step);
  return whole;
}

std::optional<SampledParts> ModelMeasure::sampleParts() {
  PlanOptions few = options;
  few.microBatches = std::min<int64_t>(options.microBatches, 2);
  few.sideBySide = 1;
  few.markParts = true;
  std::optional<Evaluator::Plan> plan = compile(few);
  if (!plan)
    return std::nullopt;
  func::FuncOp program = plan::getRankPrograms(plan->getModule()).front();
  auto received = program->getAttrOfType<DenseF64ArrayAttr>(kPartBytesAttrName);
  if (!received || received.empty()) {
    reason = "expected a sample whose parts are marked";
    return std::nullopt;
  }
  llvm::Expected<SimResult> step = plan->runStep();
  if (!step) {
    reason = llvm::toString(step.takeError());
    return std::nullopt;
  }
  SmallVector<PartCost> parts = getPartCosts(*step, plan->getMemory(), options.cluster->host, received.size());
  for (auto [part, bytes] : llvm::zip_equal(parts, received.asArrayRef()))
    part.received = bytes;
  SimReport report;
  setMeasured(report, *step, *options.cluster, /*hasEvenRouting=*/!options.routing);
  return SampledParts{std::move(parts), report.measured};
}

std::optional<SampledParts> mlir::moe::sampleParts(const GraphReader &read, const PlanOptions &options,
                                                   std::string &reason) {
  return ModelMeasure(read, options, reason).sampleParts();
}

std::optional<WholeModel> mlir::moe::measureModel(const GraphReader &read, const PlanOptions &options,
                                                  std::string &reason) {
  return ModelMeasure(read, options, reason).measure(options.microBatches);
}

std::optional<WholeModel> mlir::moe::measureFilledModel(const GraphReader &read, const PlanOptions &options,
                                                        int64_t limit, std::string &reason) {
  // After pp micro-batches the first stage does one forward and one backward in turn, and the interval is that after
  // the next but one. Interleaved orders need a multiple of pp, and are full after twice as many, as are other orders.
  int64_t pp = options.parallel.getPp(), all = options.microBatches;
  bool isSplit = pp > 1 && splitsBackward(options.pipelineOrder), isInterleaved = options.interleave > 1 || isSplit;
  int64_t filled = isInterleaved ? 2 * pp : pp == 1 ? 2 : pp + 4;
  int64_t count = std::min(all, filled * options.sideBySide);
  ModelMeasure model(read, options, reason);
  std::optional<WholeModel> whole = model.measure(count, limit);
  if (!whole || count == all || !whole->peak.empty())
    return whole;
  StepFigures &step = whole->step;
  if (step.interval == 0) {
    int64_t more = count + (isInterleaved ? pp : 1) * options.sideBySide;
    std::optional<WholeModel> longer = model.measure(more, limit);
    if (!longer || !longer->peak.empty())
      return longer;
    double each = 1 / static_cast<double>(more - count);
    step.interval = (longer->step.seconds - step.seconds) * each;
    step.intervalParts.add(longer->step.parts, each);
    step.intervalParts.add(step.parts, -each);
    step.bytes = std::max(step.bytes, longer->step.bytes);
  }
  auto added = static_cast<double>(all - count);
  step.seconds += added * step.interval;
  step.parts.add(step.intervalParts, added);
  step.work = step.work * (static_cast<double>(all) / static_cast<double>(count));
  return whole;
}
