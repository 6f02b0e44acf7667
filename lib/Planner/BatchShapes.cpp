//===- BatchShapes.cpp - plans of several batch shapes --------------------===//
#include "moe/Planner/BatchShapes.h"

#include "Evaluator.h"

#include "moe/Conversion/Variants.h"
#include "moe/Planner/SearchSpace.h"

using namespace mlir;
using namespace mlir::moe;

OwningOpRef<ModuleOp> mlir::moe::mergeVariants(MLIRContext *context, MutableArrayRef<Variant> variants) {
  Builder builder(context);
  OwningOpRef<ModuleOp> merged = ModuleOp::create(UnknownLoc::get(context));
  for (Variant &variant : variants) {
    ModuleOp module = variant.module.release();
    module->setAttr(plan::kBatchAttrName, builder.getI64IntegerAttr(variant.batch));
    module->setAttr(plan::kSequenceAttrName, builder.getI64IntegerAttr(variant.sequence));
    if (variant.seconds)
      module->setAttr(plan::kSecondsAttrName,
                      builder.getF64ArrayAttr({variant.seconds->first, variant.seconds->second}));
    merged->push_back(module);
  }
  return merged;
}

using Line = std::pair<double, double>;

static LogicalResult compileVariant(ModuleOp graph, const PlanOptions &options, std::optional<Line> seconds,
                                    SmallVectorImpl<Variant> &variants) {
  FailureOr<OwningOpRef<ModuleOp>> plan = planAndCompile(graph, options);
  if (failed(plan))
    return failure();
  Variant &variant = variants.emplace_back();
  variant.module = std::move(*plan);
  variant.seconds = seconds;
  return success();
}

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
static LogicalResult compileForAlgorithm1(ModuleOp graph, const ParsedSchedule &schedule, const PlanOptions &options,
                                          SmallVectorImpl<Variant> &variants) {
  PlanOptions choosing = options;
  choosing.stage = Stage::Spmd;
  choosing.reference = false;
  choosing.runPasses = nullptr;
  FailureOr<OwningOpRef<ModuleOp>> program = planAndCompile(graph, choosing);
  if (failed(program))
    return failure();
  auto choices = (*(**program).getOps<func::FuncOp>().begin())->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  // No layer has a choice: the model has no layers, or none that is a baseline.
  if (!choices)
    return compileVariant(graph, options, std::nullopt, variants);
  ParsedSchedule s1 = schedule;
  s1.layer = LayerRewrite::S1;
  for (const ParsedSchedule &chosen : {s1, getS2OfAuto(schedule, options)}) {
    std::optional<Line> line = getLine(choices, getName(chosen.layer));
    PlanOptions fixed = options;
    fixed.schedule = chosen.getName();
    if (line && failed(compileVariant(graph, fixed, line, variants)))
      return failure();
  }
  return success();
}

/// One variant for each number of chunks. Algorithm 1 of MPipeMoE chooses at run time, at first by the predictions.
static LogicalResult compileForGranularity(ModuleOp graph, ParsedSchedule schedule, const PlanOptions &options,
                                           SmallVectorImpl<Variant> &variants) {
  Builder builder(graph.getContext());
  for (int64_t chunks : getPipelineCounts()) {
    schedule.chunks = chunks;
    PlanOptions fixed = options;
    fixed.schedule = schedule.getName();
    if (failed(compileVariant(graph, fixed, std::nullopt, variants)))
      return failure();
    Variant &variant = variants.back();
    llvm::Expected<StepFigures> step = simulatePlan(variant.module, options);
    if (!step)
      return emitError(UnknownLoc::get(graph.getContext()))
             << "expected a cluster on which schedules can be compared: " << llvm::toString(step.takeError());
    variant.seconds = Line(step->seconds, 0.0);
    (*variant.module)->setAttr(plan::kChunksAttrName, builder.getI64IntegerAttr(chunks));
  }
  return success();
}

LogicalResult mlir::moe::compileVariants(ModuleOp graph, const PlanOptions &options,
                                         SmallVectorImpl<Variant> &variants) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(graph.getContext(), options.schedule);
  if (failed(schedule))
    return failure();
  if (schedule->chunks == 0 && schedule->layer == LayerRewrite::ParmAuto)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected one of 'parm-auto' and 'chunks:auto' in --schedule "
              "for several batch shapes, since each is decided "
              "at run time, but got '"
           << options.schedule << "'";
  if (schedule->chunks == 0)
    return compileForGranularity(graph, *schedule, options, variants);
  if (schedule->layer == LayerRewrite::ParmAuto)
    return compileForAlgorithm1(graph, *schedule, options, variants);
  return compileVariant(graph, options, std::nullopt, variants);
}
