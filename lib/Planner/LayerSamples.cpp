//===- LayerSamples.cpp - the MoE layers of a model by themselves ---------===//
#include "LayerSamples.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

static func::FuncOp getFunction(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

bool mlir::moe::isOneLayer(ModuleOp graph) {
  func::FuncOp function = getFunction(graph);
  return function.getBody().hasOneBlock() && llvm::range_size(function.getBody().front()) == 2 &&
         llvm::hasSingleElement(function.getOps<LayerOp>());
}

/// All but the name.
static bool areAlike(LayerOp a, LayerOp b) {
  auto attributes = [](LayerOp layer) {
    NamedAttrList list(layer->getAttrs());
    list.erase(layer.getLayerNameAttrName());
    return list.getDictionary(layer.getContext());
  };
  return attributes(a) == attributes(b) && a->getOperandTypes() == b->getOperandTypes() &&
         a->getResultTypes() == b->getResultTypes();
}

static OwningOpRef<ModuleOp> makeGraph(LayerOp layer, ModuleOp whole) {
  MLIRContext *context = layer.getContext();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> graph = ModuleOp::create(layer.getLoc());
  (*graph)->setAttrs(whole->getAttrDictionary());
  builder.setInsertionPointToStart(graph->getBody());
  auto function = builder.create<func::FuncOp>(
      layer.getLoc(), "model", builder.getFunctionType(layer->getOperandTypes(), layer->getResultTypes()));
  Block *body = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(layer->getOperands(), body->getArguments());
  builder.setInsertionPointToStart(body);
  Operation *copy = builder.clone(*layer, mapping);
  builder.create<func::ReturnOp>(layer.getLoc(), copy->getResults());
  auto describe = [&](StringRef name, StringRef role) {
    return builder.getDictionaryAttr({builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name)),
                                      builder.getNamedAttr(kRoleAttrName, builder.getStringAttr(role))});
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttrs(i, describe("operand" + std::to_string(i), i == 0 ? "input" : "parameter"));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttrs(i, describe("result" + std::to_string(i), "output"));
  return graph;
}

SmallVector<LayerSample> mlir::moe::sampleLayers(ModuleOp graph) {
  SmallVector<LayerSample> samples;
  SmallVector<LayerOp> firsts;
  for (LayerOp layer : getFunction(graph).getOps<LayerOp>()) {
    auto *found = llvm::find_if(firsts, [&](LayerOp first) { return areAlike(first, layer); });
    if (found != firsts.end()) {
      ++samples[found - firsts.begin()].count;
      continue;
    }
    firsts.push_back(layer);
    samples.push_back({makeGraph(layer, graph), 1});
  }
  return samples;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::scaleTokens(ModuleOp graph, double factor) {
  OwningOpRef<ModuleOp> scaled = graph.clone();
  func::FuncOp function = getFunction(*scaled);
  LayerOp layer = *function.getOps<LayerOp>().begin();
  auto type = cast<RankedTensorType>(layer.getX().getType());
  double tokens = static_cast<double>(type.getDimSize(0)) * factor;
  if (tokens < 1 || tokens != std::floor(tokens))
    return failure();
  auto resized = RankedTensorType::get({static_cast<int64_t>(tokens), type.getDimSize(1)}, type.getElementType());
  layer.getX().setType(resized);
  layer.getY().setType(resized);
  function.setFunctionType(FunctionType::get(graph.getContext(), function.front().getArgumentTypes(),
                                             function.front().getTerminator()->getOperandTypes()));
  return scaled;
}

/// Whether `value` is the gradient of a parameter, which the program returns.
static bool isParameterGradient(func::FuncOp program, Value value, const llvm::StringSet<> &parameters) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto name = argument ? program.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttrName) : StringAttr();
  StringRef text = name ? name.getValue() : "";
  return text.consume_front("grad.") && parameters.contains(text);
}

void mlir::moe::divideGradientSums(ModuleOp plan, int64_t microBatches) {
  for (func::FuncOp program : plan::getRankPrograms(plan)) {
    llvm::StringSet<> parameters = getParameters(program);
    for (auto launch : program.getOps<plan::LaunchOp>()) {
      OpCost cost = launch.getOpCost();
      if (cost.resource != Resource::Network || llvm::none_of(launch.getOutputs(), [&](Value output) {
            return isParameterGradient(program, output, parameters);
          }))
        continue;
      cost.payload = llvm::divideCeil(cost.payload, microBatches);
      launch.setCostAttr(plan::CostAttr::get(plan.getContext(), cost));
    }
  }
}

CompileOptions mlir::moe::getSampleOptions(const CompileOptions &options) {
  CompileOptions sample = options;
  ParallelAttr all = options.parallel;
  sample.parallel = ParallelAttr::get(all.getContext(), all.getDp() * all.getMp(), /*pp=*/1, all.getDp(), all.getMp(),
                                      all.getEp(), all.getEsp());
  sample.stage = Stage::Plan;
  sample.reference = false;
  sample.microBatches = sample.interleave = 1;
  sample.recompute = sample.sequenceParallel = false;
  sample.optimizer.reset();
  sample.memoryLimit = 0;
  return sample;
}
