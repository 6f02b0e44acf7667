//===- BatchShapes.cpp - plans of several batch shapes --------------------===//
#include "Evaluator.h"

#include "moe/Conversion/Variants.h"
#include "moe/Planner/SearchSpace.h"

using namespace mlir;
using namespace mlir::moe;

using Line = std::pair<double, double>;

namespace {
/// A graph of one shape, whose plans become variants of `merged`.
struct Shape {
  ModuleOp graph;
  int64_t batch, sequence;
  ModuleOp merged;

  /// Appends a plan of which alpha + beta * (batch * sequence) seconds are predicted, of communication or the step.
  void add(OwningOpRef<ModuleOp> plan, std::optional<Line> seconds) const {
    Builder builder(plan->getContext());
    (*plan)->setAttr(plan::kBatchAttrName, builder.getI64IntegerAttr(batch));
    (*plan)->setAttr(plan::kSequenceAttrName, builder.getI64IntegerAttr(sequence));
    if (seconds)
      (*plan)->setAttr(plan::kSecondsAttrName, builder.getF64ArrayAttr({seconds->first, seconds->second}));
    ModuleOp(merged).push_back(plan.release());
  }
  LogicalResult compile(const PlanOptions &options, std::optional<Line> seconds = std::nullopt) const {
    FailureOr<OwningOpRef<ModuleOp>> plan = planAndCompile(graph, options);
    if (failed(plan))
      return failure();
    add(std::move(*plan), seconds);
    return success();
  }
};
} // namespace

/// t1 or t2 of all layers as a line in the tokens of a rank; none if a layer cannot have that schedule.
static std::optional<Line> getLine(ArrayAttr choices, StringRef schedule) {
  Line line;
  for (auto choice : choices.getAsRange<DictionaryAttr>()) {
    auto number = [&](StringRef name) { return choice.getAs<FloatAttr>(name).getValueAsDouble(); };
    if (schedule == "s1" && !choice.getAs<StringAttr>("obstacle").empty())
      return std::nullopt;
    double alpha = number((schedule + "_alpha").str());
    line.first += alpha;
    line.second += (number(schedule) - alpha) / static_cast<double>(choice.getAs<IntegerAttr>("tokens").getInt());
  }
  return line;
}

/// One variant for S1 and one for S2, so that Algorithm 1 of Parm chooses at run time.
static LogicalResult compileForAlgorithm1(const Shape &shape, const ParsedSchedule &schedule,
                                          const PlanOptions &options) {
  PlanOptions choosing = options;
  choosing.stage = Stage::Spmd;
  choosing.reference = false;
  choosing.runPasses = nullptr;
  FailureOr<OwningOpRef<ModuleOp>> program = planAndCompile(shape.graph, choosing);
  if (failed(program))
    return failure();
  auto choices = (*(**program).getOps<func::FuncOp>().begin())->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  // No layer has a choice: the model has no layers, or none that is a baseline.
  if (!choices)
    return shape.compile(options);
  ParsedSchedule s1 = schedule;
  s1.layer = LayerRewrite::S1;
  for (const ParsedSchedule &chosen : {s1, getS2OfAuto(schedule, options)}) {
    std::optional<Line> line = getLine(choices, getName(chosen.layer));
    PlanOptions fixed = options;
    fixed.schedule = chosen.getName();
    if (line && failed(shape.compile(fixed, line)))
      return failure();
  }
  return success();
}

/// One variant for each number of chunks. Algorithm 1 of MPipeMoE chooses at run time, at first by the predictions.
static LogicalResult compileForGranularity(const Shape &shape, ParsedSchedule schedule, const PlanOptions &options) {
  MLIRContext *context = options.parallel.getContext();
  for (int64_t chunks : kPipelineCounts) {
    schedule.chunks = chunks;
    PlanOptions fixed = options;
    fixed.schedule = schedule.getName();
    FailureOr<OwningOpRef<ModuleOp>> plan = planAndCompile(shape.graph, fixed);
    if (failed(plan))
      return failure();
    llvm::Expected<StepFigures> step = simulatePlan(*plan, options);
    if (!step)
      return emitError(UnknownLoc::get(context))
             << "expected a cluster on which schedules can be compared: " << llvm::toString(step.takeError());
    (**plan)->setAttr(plan::kChunksAttrName, Builder(context).getI64IntegerAttr(chunks));
    shape.add(std::move(*plan), Line(step->seconds, 0.0));
  }
  return success();
}

LogicalResult mlir::moe::compileVariants(ModuleOp graph, const PlanOptions &options, int64_t batch, int64_t sequence,
                                         ModuleOp merged) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(graph.getContext(), options.schedule);
  if (failed(schedule))
    return failure();
  Shape shape{graph, batch, sequence, merged};
  bool hasChunks = schedule->chunks == 0, isParm = schedule->layer == LayerRewrite::ParmAuto;
  if (hasChunks && isParm)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected one of 'parm-auto' and 'chunks:auto' in --schedule for several batch shapes, since each is "
              "decided at run time, but got '"
           << options.schedule << "'";
  if (hasChunks)
    return compileForGranularity(shape, *schedule, options);
  return isParm ? compileForAlgorithm1(shape, *schedule, options) : shape.compile(options);
}
