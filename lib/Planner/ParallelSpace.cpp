//===- ParallelSpace.cpp - all groups that are compared -------------------===//
#include "ParallelSearch.h"

#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Planner/SearchSpace.h"
#include "moe/Support/UsageError.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::setBatch(const ParallelQuestion &question, Candidate &candidate, int64_t batch) {
  std::optional<int64_t> globalBatch = question.request.globalBatch;
  candidate.batch = batch;
  candidate.microBatches = question.request.microBatches;
  if (!globalBatch)
    return;
  int64_t sequences = candidate.batch * candidate.parallel.getDp();
  candidate.microBatches = *globalBatch / sequences;
  if (candidate.microBatches < 1 || *globalBatch % sequences != 0)
    return refuse(candidate, Verdict::Illegal, "dp x --batch does not divide the global batch");
  if (candidate.microBatches % candidate.sideBySide != 0)
    return refuse(candidate, Verdict::Illegal, "--side-by-side does not divide the number of micro-batches");
  if (candidate.microBatches > kMaxMicroBatches)
    refuse(candidate, Verdict::Illegal,
           "the global batch is more than " + std::to_string(kMaxMicroBatches) + " micro-batches");
}

SmallVector<int64_t> mlir::moe::getInterleaves(const ParallelQuestion &question, const Candidate &candidate,
                                               PipelineOrder order) {
  int64_t pp = candidate.parallel.getPp();
  SmallVector<int64_t> open = question.request.space.interleaves, legal;
  if (std::optional<int64_t> needed = getStagesPerDevice(order); needed && pp > 1)
    open = {*needed};
  StepChoice one = candidate;
  one.pipelineOrder = order;
  for (int64_t interleave : open) {
    one.interleave = interleave;
    if ((interleave == 1 || pp > 1) && one.getPipelineShape(question.options.train).check().empty())
      legal.push_back(interleave);
  }
  return legal;
}

/// The space without rules.
static StepSpace getWholeSpace(const PlanOptions &options, function_ref<bool(StringRef)> isOpen) {
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

/// Leaves out the values of a choice that the rules do not allow for any plan. If that is all of them, the candidates
/// are refused one by one.
template <class Value> static void restrict(const PlanOptions &options, StringRef choice, SmallVector<Value> &values) {
  auto allows = [&](const Value &value) { return !options.rules || options.rules->allows(choice, getText(value)); };
  if (llvm::any_of(values, allows))
    llvm::erase_if(values, [&](const Value &value) { return !allows(value); });
}

StepSpace mlir::moe::restrictSpace(const PlanOptions &options, StepSpace space) {
  restrict(options, "interleave", space.interleaves);
  restrict(options, "pipeline", space.pipelineOrders);
  restrict(options, "recompute", space.recomputes);
  restrict(options, "zero", space.zeros);
  if (!options.rules)
    return space;
  space.mayBeSideBySide &= options.rules->allows("side_by_side", "2");
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>)
      if (!options.rules->allows(info.getKey(), "true"))
        llvm::erase(space.flags, member);
  });
  return space;
}

StepSpace mlir::moe::getStepSpace(const PlanOptions &options, function_ref<bool(StringRef)> isOpen) {
  return restrictSpace(options, getWholeSpace(options, isOpen));
}

/// Whether groups have the sizes that are given.
static bool allows(const GivenGroups &given, ParallelAttr all) {
  auto isAs = [](std::optional<int64_t> given, int64_t size) { return !given || *given == size; };
  return isAs(given.pp, all.getPp()) && isAs(given.dp, all.getDp()) && isAs(given.mp, all.getMp()) &&
         isAs(given.ep, all.getEp()) && isAs(given.esp, all.getEsp()) && isAs(given.cp, all.getCp());
}

bool mlir::moe::isOpenTo(const ParallelQuestion &question, const Candidate &job) {
  const StepSpace &space = question.request.space;
  const PlanOptions &options = question.options;
  auto isOpen = [](const auto &values, const auto &value) { return values.size() > 1 || value == values.front(); };
  Candidate sized = job;
  sized.verdict = Verdict::Skipped;
  setBatch(question, sized, job.batch);
  bool isStep = sized.verdict != Verdict::Illegal && sized.microBatches == job.microBatches &&
                isOpen(space.batches, job.batch) && isOpen(space.interleaves, job.interleave) &&
                isOpen(space.pipelineOrders, job.pipelineOrder) && isOpen(space.recomputes, job.recompute) &&
                isOpen(space.zeros, job.zero) && job.sideBySide == options.sideBySide;
  visitChoices([&](auto member, const ChoiceInfo &) {
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>)
      isStep &= job.*member == options.*member || llvm::is_contained(space.flags, member);
  });
  return isStep && question.getBrokenRule(job).empty() && llvm::is_contained(question.groups, job.parallel) &&
         (options.schedule == "auto" || options.schedule == job.schedule);
}

double mlir::moe::getFurtherPasses(const ParallelQuestion &question, double load, ParallelAttr parallel) {
  double most = 0;
  for (const RankLoads &loads : question.rankLoads)
    most = std::max(most, loads.getShareAbove(load, parallel.getEp()));
  return most;
}

/// Further passes may be as rare as with the bound that a search begins with.
static constexpr double kRare = 0.01;
/// Smaller bounds are tried only if nothing else fits: the models' routings differ more than the synthetic ones.
static constexpr double kLeastLoad = 1.5;

std::optional<double> mlir::moe::getMaxLoad(const ParallelQuestion &question, ArrayRef<double> maxLoads,
                                            ParallelAttr parallel) {
  if (maxLoads.empty())
    return std::nullopt;
  double best = maxLoads.front();
  for (double load : maxLoads.drop_front())
    if (load >= kLeastLoad && getFurtherPasses(question, load, parallel) <= kRare)
      best = load;
  return best;
}

std::vector<RankLoads> mlir::moe::getRankLoads(ModuleOp graph) {
  std::vector<RankLoads> loads;
  std::set<std::tuple<bool, int64_t, int64_t>> known;
  graph.walk([&](LayerOp layer) {
    int64_t experts = layer.getW1().getType().getDimSize(0), topK = layer.getTopK();
    bool isAuxFree = layer.getSelectionBias() != nullptr;
    if (known.insert({isAuxFree, experts, topK}).second)
      loads.emplace_back(isAuxFree ? kAuxFreeRouting : kAuxLossRouting, experts, topK);
  });
  return loads;
}

/// Choices that are varied after groups and schedules; those but the last one for each stage of ZeRO.
static constexpr StringRef kVariedLater[] = {"batch",     "interleave",   "micro_batches", "pipeline",
                                             "recompute", "side_by_side", "zero"};

void mlir::moe::takeNeeded(const ParallelQuestion &question, Candidate &candidate) {
  auto findBroken = [&](Candidate one) {
    one.schedule = getSchedules(question, one).front();
    return question.getBrokenRule(one, kVariedLater);
  };
  auto allowsZero = [&](int64_t zero) {
    Candidate one = candidate;
    one.zero = zero;
    return question.getBrokenRule(one, ArrayRef(kVariedLater).drop_back()).empty();
  };
  if (const auto *zero = llvm::find_if(question.request.space.zeros, allowsZero);
      !allowsZero(candidate.zero) && zero != question.request.space.zeros.end())
    candidate.zero = *zero;
  std::string broken = findBroken(candidate);
  for (bool StepChoice::*flag : question.request.space.flags) {
    Candidate one = candidate;
    one.*flag = true;
    if (!broken.empty() && findBroken(one).empty()) {
      candidate = std::move(one);
      return;
    }
  }
  if (!broken.empty() && candidate.verdict != Verdict::Illegal)
    refuse(candidate, Verdict::Illegal, broken);
}

/// A candidate with the first value of all that is open, and the first batch that divides the global one.
static Candidate makeCandidate(const ParallelQuestion &question, ArrayRef<double> maxLoads, ParallelAttr parallel) {
  const StepSpace &space = question.request.space;
  Candidate candidate;
  static_cast<StepChoice &>(candidate) = question.options;
  candidate.parallel = parallel;
  candidate.maxLoad = getMaxLoad(question, maxLoads, parallel);
  candidate.schedule.clear();
  candidate.stageBoundaries.clear();
  candidate.interleave = space.interleaves.front();
  candidate.pipelineOrder = space.pipelineOrders.front();
  candidate.recompute = space.recomputes.front();
  candidate.zero = space.zeros.front();
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.hasEffect && !info.hasEffect(parallel))
      candidate.*member = StepChoice().*member;
  });
  candidate.verdict = Verdict::Skipped;
  setBatch(question, candidate, space.batches.front());
  auto isPossible = [&](PipelineOrder order) { return !getInterleaves(question, candidate, order).empty(); };
  if (candidate.verdict != Verdict::Illegal && llvm::none_of(space.pipelineOrders, isPossible))
    refuse(candidate, Verdict::Illegal,
           "--interleave needs a pipeline, and micro-batches as the pipeline's order needs them");
  takeNeeded(question, candidate);
  return candidate;
}

std::vector<Candidate> mlir::moe::makeCandidates(const ParallelQuestion &question, ArrayRef<double> maxLoads) {
  std::vector<Candidate> candidates;
  for (ParallelAttr parallel : question.groups)
    candidates.push_back(makeCandidate(question, maxLoads, parallel));
  return candidates;
}

/// The memory that a plan may use; 0 where no limit is known, as on a host.
static int64_t getLimit(const PlanOptions &options) {
  if (options.memoryLimit != 0 || options.cluster->processors.count != 0)
    return options.memoryLimit;
  return static_cast<int64_t>(options.cluster->getPlanBytes());
}

FailureOr<ParallelQuestion> mlir::moe::readQuestion(const ModelSource &source, const ParallelRequest &request,
                                                    const PlanOptions &options) {
  MLIRContext *context = options.parallel.getContext();
  int64_t most = options.cluster->getMaxDevices();
  if (request.world > most)
    return emitUsageError(context) << "expected --world of at most the " << most << " devices of cluster '"
                                   << options.cluster->name << "' but got " << request.world;
  ParallelQuestion question{source, request, options, context, getLimit(options)};
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, {.batch = 1});
  if (failed(graph))
    return failure();
  question.tokens = getTokens(**graph);
  if ((**graph)->hasAttr(kDefaultMaxLoadAttrName))
    question.maxLoads = request.space.maxLoads;
  if (question.maxLoads.size() > 1)
    question.rankLoads = getRankLoads(**graph);
  int64_t layers = 0;
  (*graph)->walk([&](LayerOp layer) {
    ++layers;
    question.isDropless |= layer.isDropless();
    question.experts = std::max(question.experts, layer.getW1().getType().getDimSize(0));
  });
  bool isSampled = question.isSampled();
  int64_t stages = isSampled ? static_cast<int64_t>(source.kinds.size()) : std::max<int64_t>(layers, 1);
  // A graph that is fixed does not say which tokens are a sequence.
  SmallVector<int64_t> contextSizes = isSampled ? getContextSizes(question.tokens) : SmallVector<int64_t>{1};
  if (request.given.cp)
    contextSizes = {*request.given.cp};
  question.groups = getParallelSpace(context, request.world, stages, std::max<int64_t>(question.experts, 1),
                                     options.cluster->devicesPerNode, contextSizes);
  llvm::erase_if(question.groups, [&](ParallelAttr parallel) {
    return !allows(request.given, parallel) ||
           (!request.groups.empty() && !llvm::is_contained(request.groups, parallel));
  });
  if (question.groups.empty())
    return emitUsageError(context) << "no groups of " << request.world
                                   << " ranks have the sizes that are given in --parallel";
  return question;
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

/// Whether sending tokens once or by node may save time: between nodes, if no member of mp has the same tokens.
static bool mayPay(const ParallelQuestion &question, const ParsedSchedule &byNode, ParallelAttr parallel) {
  bool hasNodes = !byNode.once || byNode.once->hasNodes, hasOwnTokens = parallel.getMp() == 1 || byNode.sharesTokens();
  return hasNodes && hasOwnTokens &&
         mayExchangeByNode(byNode, parallel, question.options.cluster->devicesPerNode, question.isDropless);
}

/// Schedules that are simple enough to be tried with all groups: those that may pay, or all that are possible.
static SmallVector<std::string> getSimpleSchedules(const ParallelQuestion &question, ParallelAttr parallel,
                                                   bool mustPay) {
  SmallVector<std::string> schedules;
  for (const ParsedSchedule &schedule : getCombinations()) {
    bool isLayerAlone = !schedule.saa && !schedule.dependsOnRouting();
    // Without duplicate tokens, schedules that share them come to the same.
    bool mayShare = parallel.getMp() > 1 || !schedule.sharesTokens();
    bool mayBeByNode =
        mustPay ? mayPay(question, schedule, parallel)
                : mayExchangeByNode(schedule, parallel, question.options.cluster->devicesPerNode, question.isDropless);
    if (isLayerAlone && mayShare && (!schedule.isByNode() || mayBeByNode))
      schedules.push_back(schedule.getName());
  }
  return schedules;
}

SmallVector<std::string> mlir::moe::getSchedules(const ParallelQuestion &question, const Candidate &like) {
  if (question.options.schedule != "auto")
    return {question.options.schedule};
  SmallVector<std::string> all;
  for (bool mustPay : {true, false}) {
    all = getSimpleSchedules(question, like.parallel, mustPay);
    SmallVector<std::string> allowed(llvm::make_filter_range(all, [&](const std::string &schedule) {
      Candidate one = like;
      one.schedule = schedule;
      return question.getBrokenRule(one, kVariedLater).empty();
    }));
    if (!allowed.empty())
      return allowed;
  }
  // An error says what the first one breaks.
  return {all.front()};
}
