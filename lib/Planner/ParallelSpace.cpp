//===- ParallelSpace.cpp - all groups that are compared -------------------===//
#include "ParallelSearch.h"
#include "Threads.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Compiler/Schedule.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Planner/SearchSpace.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

void ParallelSearch::setBatch(Candidate &candidate, int64_t batch) const {
  candidate.batch = batch;
  candidate.microBatches = request.microBatches;
  if (!request.globalBatch)
    return;
  int64_t sequences = candidate.batch * candidate.parallel.getDp();
  candidate.microBatches = *request.globalBatch / sequences;
  if (candidate.microBatches < 1 || *request.globalBatch % sequences != 0)
    return refuse(candidate, Verdict::Illegal, "dp x --batch does not divide the global batch");
  if (candidate.microBatches % candidate.sideBySide != 0)
    return refuse(candidate, Verdict::Illegal, "--side-by-side does not divide the number of micro-batches");
  if (candidate.microBatches > kMaxMicroBatches)
    refuse(candidate, Verdict::Illegal,
           "the global batch is more than " + std::to_string(kMaxMicroBatches) + " micro-batches");
}

SmallVector<PipelineOrder> ParallelSearch::getEstimatedOrders(const Candidate &candidate) const {
  ArrayRef<PipelineOrder> all = request.space.pipelineOrders;
  if (candidate.parallel.getPp() == 1)
    return {all.front()};
  SmallVector<PipelineOrder> orders(llvm::make_filter_range(all, isEstimated));
  return orders.empty() ? SmallVector<PipelineOrder>{all.front()} : orders;
}

SmallVector<int64_t> ParallelSearch::getInterleaves(const Candidate &candidate, PipelineOrder order) const {
  int64_t pp = candidate.parallel.getPp();
  SmallVector<int64_t> open = request.space.interleaves, legal;
  if (std::optional<int64_t> needed = getStagesPerDevice(order); needed && pp > 1)
    open = {*needed};
  for (int64_t interleave : open) {
    StepChoice one = candidate;
    one.interleave = interleave;
    one.pipelineOrder = order;
    if ((interleave == 1 || pp > 1) && describeMistake(one.getPipelineShape(options.train)).empty())
      legal.push_back(interleave);
  }
  return legal;
}

StepSpace mlir::moe::getStepSpace(const PlanOptions &options, function_ref<bool(StringRef)> isOpen) {
  using Order = PipelineOrder;
  StepSpace space;
  space.interleaves = {options.interleave};
  space.pipelineOrders = {options.pipelineOrder};
  if (options.pipelineOrder == Order::Search)
    space.pipelineOrders = {
        Order::OneForwardOneBackward, Order::Overlapped1F1B, Order::ZbH1, Order::ZbV, Order::DualPipeV, Order::Search};
  space.recomputes = {options.recompute};
  space.zeros = {options.zero};
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>)
      if (info.isSearched && isOpen(info.option))
        space.flags.push_back(member);
  });
  if (!options.train)
    return space;
  if (isOpen("pipeline"))
    space.pipelineOrders = {Order::OneForwardOneBackward, Order::Overlapped1F1B, Order::DualPipeV};
  space.mayBeSideBySide = isOpen("pipeline") && isOpen("side-by-side");
  if (isOpen("interleave") && !getStagesPerDevice(options.pipelineOrder))
    space.interleaves = {1, 2, 4, 8};
  if (isOpen("recompute"))
    space.recomputes = {Recompute::None, Recompute::Selective, Recompute::Block};
  if (isOpen("zero") && options.optimizer)
    space.zeros = {1, 0, 2, 3};
  return space;
}

bool GivenGroups::allow(ParallelAttr all) const {
  auto isAs = [](std::optional<int64_t> given, int64_t size) { return !given || *given == size; };
  return isAs(pp, all.getPp()) && isAs(dp, all.getDp()) && isAs(mp, all.getMp()) && isAs(ep, all.getEp()) &&
         isAs(esp, all.getEsp()) && isAs(cp, all.getCp());
}

/// The share of layers that need a further pass where there is room for `load` times the even load.
double ParallelSearch::getFurtherPasses(double load, ParallelAttr parallel) const {
  double most = 0;
  for (const RankLoads &loads : rankLoads)
    most = std::max(most, loads.getShareAbove(load, parallel.getEp()));
  return most;
}

/// A further pass may be as rare as that with the bound that a search begins with.
static constexpr double kRare = 0.01;
/// A smaller bound is for where nothing else fits: the models' routings differ more than the synthetic ones.
static constexpr double kLeastLoad = 1.5;

std::optional<double> ParallelSearch::getMaxLoad(ParallelAttr parallel) const {
  if (maxLoads.empty())
    return std::nullopt;
  double best = maxLoads.front();
  for (double load : maxLoads.drop_front())
    if (load >= kLeastLoad && getFurtherPasses(load, parallel) <= kRare)
      best = load;
  return best;
}

/// How a layer's experts are balanced, by what it has.
static const RoutingPreset &getPreset(LayerOp layer) {
  return layer.getSelectionBias() ? kAuxFreeRouting : kAuxLossRouting;
}

static std::vector<RankLoads> getRankLoads(ModuleOp graph) {
  std::vector<RankLoads> loads;
  std::set<std::tuple<bool, int64_t, int64_t>> known;
  graph.walk([&](LayerOp layer) {
    int64_t experts = layer.getW1().getType().getDimSize(0), topK = layer.getTopK();
    const RoutingPreset &preset = getPreset(layer);
    if (known.insert({&preset == &kAuxFreeRouting, experts, topK}).second)
      loads.emplace_back(preset, experts, topK);
  });
  return loads;
}

/// With the first of all that the request leaves open, and the first batch that divides the global one.
void ParallelSearch::addCandidate(ParallelAttr parallel) {
  Candidate &candidate = candidates.emplace_back();
  static_cast<StepChoice &>(candidate) = options;
  candidate.parallel = parallel;
  candidate.maxLoad = getMaxLoad(parallel);
  candidate.schedule.clear();
  candidate.stageBoundaries.clear();
  candidate.interleave = request.space.interleaves.front();
  candidate.pipelineOrder = request.space.pipelineOrders.front();
  candidate.recompute = request.space.recomputes.front();
  candidate.zero = request.space.zeros.front();
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.hasEffect && !info.hasEffect(parallel))
      candidate.*member = StepChoice().*member;
  });
  candidate.verdict = Verdict::Skipped;
  setBatch(candidate, request.space.batches.front());
  auto isPossible = [&](PipelineOrder order) { return !getInterleaves(candidate, order).empty(); };
  if (candidate.verdict != Verdict::Illegal && llvm::none_of(request.space.pipelineOrders, isPossible))
    refuse(candidate, Verdict::Illegal,
           "--interleave needs a pipeline, and micro-batches as the pipeline's order needs them");
}

LogicalResult ParallelSearch::addSpace() {
  int64_t most = options.cluster->getMaxDevices();
  if (request.world > most)
    return emitUsageError(context) << "expected --world of at most the " << most << " devices of cluster '"
                                   << options.cluster->name << "' but got " << request.world;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, ModelForm(), {});
  if (failed(graph))
    return failure();
  tokens = getTokens(**graph);
  if ((**graph)->hasAttr(kDefaultMaxLoadAttrName))
    maxLoads = request.space.maxLoads;
  if (maxLoads.size() > 1)
    rankLoads = getRankLoads(**graph);
  int64_t layers = 0, experts = 1;
  (*graph)->walk([&](LayerOp layer) {
    ++layers;
    isDropless |= layer.isDropless();
    experts = std::max(experts, layer.getW1().getType().getDimSize(0));
  });
  int64_t stages = isSampled() ? static_cast<int64_t>(source.kinds.size()) : std::max<int64_t>(layers, 1);
  // A graph that is fixed does not say which tokens are a sequence.
  SmallVector<int64_t> contextSizes = isSampled() ? getContextSizes(tokens) : SmallVector<int64_t>{1};
  if (request.given.cp)
    contextSizes = {*request.given.cp};
  for (ParallelAttr parallel :
       getParallelSpace(context, request.world, stages, experts, options.cluster->devicesPerNode, contextSizes))
    if (request.given.allow(parallel))
      addCandidate(parallel);
  if (candidates.empty())
    return emitUsageError(context) << "expected sizes in --parallel that groups of " << request.world
                                   << " ranks can have, but no groups have the given sizes";
  return success();
}

PlanOptions mlir::moe::getChoiceOptions(const StepChoice &choice, const PlanOptions &options) {
  PlanOptions one = options;
  static_cast<StepChoice &>(one) = choice;
  one.stage = Stage::Plan;
  one.reference = false;
  one.memoryLimit = 0;
  one.findChanges = false;
  return one;
}

/// Whether tokens that go once, or by node, may save time: between nodes, and where no member of mp has the same
/// tokens.
bool ParallelSearch::mayPay(const ParsedSchedule &byNode, ParallelAttr parallel) const {
  bool hasNodes = !byNode.once || byNode.once->hasNodes, hasOwnTokens = parallel.getMp() == 1 || byNode.sharesTokens();
  return hasNodes && hasOwnTokens && mayExchangeByNode(byNode, parallel, options.cluster->devicesPerNode, isDropless);
}

SmallVector<std::string> ParallelSearch::getSchedules(ParallelAttr parallel) const {
  if (options.schedule != "auto")
    return {options.schedule};
  SmallVector<std::string> schedules;
  for (const ParsedSchedule &schedule : getCombinations()) {
    bool isLayerAlone = !schedule.saa && !schedule.dependsOnRouting();
    // Where no tokens are there twice, those that share them come to the same.
    bool mayShare = parallel.getMp() > 1 || !schedule.sharesTokens();
    if (isLayerAlone && mayShare && (!schedule.isByNode() || mayPay(schedule, parallel)))
      schedules.push_back(schedule.getName());
  }
  return schedules;
}

/// How little is known of a candidate; nothing where it cannot be taken.
static std::optional<int> getDoubt(const Candidate &candidate) {
  switch (candidate.verdict) {
  case Verdict::Compiled:
    return 0;
  case Verdict::Estimated:
    return 1;
  case Verdict::Slower:
    return 2;
  default:
    return std::nullopt;
  }
}

void ParallelSearch::noteBest(const Candidate &candidate) {
  if (!getDoubt(candidate))
    return;
  auto rank = [&](const Candidate &one) { return std::pair(*getDoubt(one), getCost(one)); };
  std::lock_guard lock(progress);
  if (!bestSoFar || rank(candidate) < rank(*bestSoFar))
    bestSoFar = candidate;
}

void ParallelSearch::showProgress(StringRef phase, size_t done, size_t all) {
  std::lock_guard lock(progress);
  if (request.showProgress)
    request.showProgress({phase, done, all, bestSoFar ? &*bestSoFar : nullptr});
}

void ParallelSearch::visitAll(StringRef phase, size_t count, function_ref<void(size_t)> run) {
  if (count == 0)
    return;
  std::atomic<size_t> done = 0;
  showProgress(phase, 0, count);
  forAll(context, count, [&](size_t index) {
    if (isStopped())
      return;
    run(index);
    showProgress(phase, ++done, count);
  });
}

void ParallelSearch::visitBest(StringRef phase, ArrayRef<Candidate *> sorted, size_t enough,
                               function_ref<bool(Candidate &)> isGood) {
  showProgress(phase, 0, enough);
  takeWhileFew(
      context, sorted.size(), enough, [&](size_t index) { return !isStopped() && isGood(*sorted[index]); },
      [&](size_t good) {
        showProgress(phase, good, enough);
        return !isStopped();
      });
}

void ParallelSearch::refuseSize(Candidate &candidate, StringRef what) {
  std::string reason;
  llvm::raw_string_ostream(reason) << llvm::format("%.1f GB a rank, of %.1f GB; ",
                                                   static_cast<double>(candidate.getBytes()) / 1e9,
                                                   static_cast<double>(limit) / 1e9)
                                   << what;
  refuse(candidate, Verdict::TooLarge, reason);
}

SmallVector<Candidate *> ParallelSearch::sort() {
  SmallVector<Candidate *> sorted;
  for (Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Estimated || candidate.verdict == Verdict::Compiled)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](Candidate *a, Candidate *b) {
    // What was compiled is known, and goes before what was not.
    auto key = [&](Candidate *one) { return std::pair(one->verdict != Verdict::Compiled, getCost(*one)); };
    return key(a) < key(b);
  });
  return sorted;
}
