//===- LayerSamples.cpp - what a schedule changes of a model --------------===//
#include "LayerSamples.h"

#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

static func::FuncOp getFunction(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

bool mlir::moe::isOneLayer(ModuleOp graph) {
  func::FuncOp function = getFunction(graph);
  return function.getBody().hasOneBlock() && llvm::range_size(function.getBody().front()) == 2 &&
         llvm::hasSingleElement(function.getOps<LayerOp>());
}

/// Whether two layers are alike in all but their names.
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

/// The graph of one layer with `factor` times as many tokens. Fails if that is no whole number.
static FailureOr<OwningOpRef<ModuleOp>> scaleTokens(ModuleOp graph, double factor) {
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

/// Divides the cost of sums of gradients by the number of micro-batches, since a step sums gradients once.
static void divideGradientSums(ModuleOp plan, int64_t microBatches) {
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

/// `options` for samples of `graph`: for a layer alone, on the ranks of one stage of a pipeline.
static PlanOptions getLayerOptions(ModuleOp graph, PlanOptions options) {
  // The plan that is taken is compiled again, with proofs.
  options.leaveOutProofs = true;
  if (isOneLayer(graph))
    return options;
  int64_t stages = options.parallel.getPp();
  options.parallel = getStageParallel(options.parallel, options.parallel.getDp());
  options.microBatches = options.interleave = options.sideBySide = 1;
  options.pipelineOrder = PipelineOrder::OneForwardOneBackward;
  options.stageBoundaries.clear();
  options.recompute = Recompute::None;
  options.sequenceParallel = false;
  options.optimizer.reset();
  options.memoryLimit = 0;
  // The launches of pipeline stages stay in the program's order.
  if (stages > 1 && !options.order)
    options.order = OrderPolicy::Program;
  return options;
}

LayerSamples::LayerSamples(ModuleOp graph, const PlanOptions &options, double tokens)
    : evaluator(getLayerOptions(graph, options)), microBatches(options.microBatches), isGraph(isOneLayer(graph)) {
  if (isGraph)
    samples.push_back({graph.clone(), 1, nullptr});
  else
    addSamples(graph, options.parallel.getPp());
  if (tokens == 1)
    return;
  for (Sample &sample : samples) {
    FailureOr<OwningOpRef<ModuleOp>> scaled = scaleTokens(*sample.graph, tokens);
    legal &= succeeded(scaled);
    if (succeeded(scaled))
      sample.graph = std::move(*scaled);
  }
}

void LayerSamples::addSamples(ModuleOp graph, int64_t stages) {
  SmallVector<LayerOp> firsts;
  SmallVector<int64_t> counts;
  for (LayerOp layer : getFunction(graph).getOps<LayerOp>()) {
    auto *found = llvm::find_if(firsts, [&](LayerOp first) { return areAlike(first, layer); });
    if (found != firsts.end()) {
      ++counts[found - firsts.begin()];
      continue;
    }
    firsts.push_back(layer);
    counts.push_back(1);
  }
  for (auto [layer, count] : llvm::zip(firsts, counts)) {
    Sample &sample = samples.emplace_back();
    sample.graph = makeGraph(layer, graph);
    (*sample.graph)->setAttr(kParallelAttrName, evaluator.getOptions().parallel);
    sample.count = static_cast<double>(count) / static_cast<double>(stages);
  }
}

bool LayerSamples::orderAll(const ParsedSchedule &schedule, std::optional<OrderPolicy> order, Candidate &candidate) {
  plans.clear();
  for (Sample &sample : samples) {
    std::optional<Evaluator::Plan> plan = evaluator.order(*sample.unordered, schedule, order, candidate.reason);
    if (!plan)
      return false;
    if (!isGraph)
      divideGradientSums(plan->getModule(), microBatches);
    plans.push_back(std::move(*plan));
  }
  return true;
}

void LayerSamples::measureMemory(Candidate &candidate) {
  int64_t limit = evaluator.getOptions().memoryLimit, &bytes = candidate.estimate.bytes;
  bytes = 0;
  for (auto [plan, sample] : llvm::zip(plans, samples)) {
    bytes += static_cast<int64_t>(static_cast<double>(plan.getMemory().getDeviceBytes()) * sample.count);
    if (limit > 0 && bytes > limit)
      candidate.reason = plan.describePeak();
  }
}

void LayerSamples::apply(const ParsedSchedule &schedule, Candidate &candidate) {
  candidate.verdict = Verdict::Illegal;
  for (Sample &sample : samples) {
    sample.unordered = evaluator.compileUnordered(*sample.graph, schedule, candidate.reason);
    if (!sample.unordered)
      return;
  }
  if (!orderAll(schedule, OrderPolicy::Program, candidate))
    return;
  for (auto [plan, sample] : llvm::zip(plans, samples)) {
    llvm::Expected<double> bound = plan.getBound();
    if (!bound) {
      candidate.reason = llvm::toString(bound.takeError());
      return;
    }
    candidate.bound += *bound * sample.count;
  }
  measureMemory(candidate);
  candidate.verdict = Verdict::Bounded;
}

std::string LayerSamples::getText() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Evaluator::Plan &plan : plans)
    for (func::FuncOp program : plan::getRankPrograms(plan.getModule()))
      program.print(os, OpPrintingFlags().useLocalScope());
  return text;
}

llvm::Error LayerSamples::addSteps(Candidate &candidate) {
  StepFigures &sum = candidate.estimate;
  double longest = 0;
  for (auto [plan, sample] : llvm::zip(plans, samples)) {
    llvm::Expected<StepFigures> step = plan.simulate();
    if (!step)
      return step.takeError();
    double seconds = step->seconds * sample.count;
    sum.seconds += seconds;
    sum.parts.add(step->parts, sample.count);
    sum.peakFlops = step->peakFlops;
    sum.flops += step->flops * sample.count;
    sum.bytesSent += step->bytesSent * sample.count;
    sum.bytesBetweenNodes += step->bytesBetweenNodes * sample.count;
    sum.errors.add(step->errors, sample.count);
    if (seconds > longest) {
      longest = seconds;
      sum.limit = step->limit;
      sum.low = step->low;
      sum.high = step->high;
      sum.ownSteps = step->ownSteps;
    }
  }
  sum.uncertainty = sum.seconds > 0 ? sum.errors.getSeconds() / sum.seconds : 0;
  return llvm::Error::success();
}

void LayerSamples::simulate(const ParsedSchedule &schedule, Candidate &candidate) {
  std::optional<OrderPolicy> order = candidate.order ? candidate.order : evaluator.getOptions().order;
  // The program's order is the default if nothing overlaps.
  bool isOrdered = order ? *order == OrderPolicy::Program : !schedule.canOverlap();
  candidate.verdict = Verdict::Illegal;
  if (!isOrdered && !orderAll(schedule, order, candidate))
    return;
  measureMemory(candidate);
  if (llvm::Error error = addSteps(candidate))
    candidate.reason = llvm::toString(std::move(error));
  else
    candidate.verdict = Verdict::Simulated;
}
