//===- Variants.cpp - plans of several batch shapes -----------------------===//
#include "moe/Compiler/Variants.h"

#include "Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"

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

static LogicalResult compileVariant(ModuleOp graph, const CompileOptions &options,
                                    std::optional<std::pair<double, double>> seconds,
                                    SmallVectorImpl<Variant> &variants) {
  FailureOr<OwningOpRef<ModuleOp>> plan = compile(graph, options);
  if (failed(plan))
    return failure();
  Variant &variant = variants.emplace_back();
  variant.module = std::move(*plan);
  variant.seconds = seconds;
  return success();
}

/// t1 or t2 of all layers as a line in the tokens of a rank; none where a layer cannot be had so.
static std::optional<std::pair<double, double>> getLine(ArrayAttr choices, StringRef schedule) {
  std::pair<double, double> line;
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

LogicalResult mlir::moe::compileVariants(ModuleOp graph, const CompileOptions &options,
                                         SmallVectorImpl<Variant> &variants) {
  if (options.schedule != "auto")
    return compileVariant(graph, options, std::nullopt, variants);
  CompileOptions choosing = options;
  choosing.stage = Stage::Spmd;
  FailureOr<OwningOpRef<ModuleOp>> program = compile(graph, choosing);
  if (failed(program))
    return failure();
  auto choices = (*(**program).getOps<func::FuncOp>().begin())->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  CompileOptions chosen = options;
  for (StringRef schedule : {StringRef("s1"), StringRef("s2")}) {
    std::optional<std::pair<double, double>> line = choices ? getLine(choices, schedule) : std::nullopt;
    chosen.schedule = schedule == "s1" ? schedule.str() : getS2OfAuto(options).str();
    if (line && failed(compileVariant(graph, chosen, line, variants)))
      return failure();
  }
  // No layer has a choice: the model has none, or none that is a baseline.
  return choices ? success() : compileVariant(graph, options, std::nullopt, variants);
}
