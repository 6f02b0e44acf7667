//===- StepEstimator.cpp - steps of whole models, from samples ------------===//
#include "StepEstimator.h"

#include "moe/Cost/PlanRules.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;

StepEstimator::StepEstimator(const ModelSource &source, const PlanOptions &options, int64_t world, SampleSize size)
    : source(source), options(options), world(world), size(size), kinds(getKinds(source)) {
  for (int64_t kind : source.kinds)
    kindOf.push_back(llvm::find(kinds, kind) - kinds.begin());
}

namespace {
/// The order of a candidate's launches.
enum class Launches {
  Program,  ///< the program's, by default
  Kept,     ///< the program's, because stages of a pipeline keep it
  Reordered ///< one that a search finds
};
} // namespace

static Launches getLaunches(const Candidate &candidate, const PlanOptions &options) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(candidate.parallel.getContext(), candidate.schedule);
  bool mayMove = options.order ? *options.order != OrderPolicy::Program : succeeded(schedule) && schedule->canOverlap();
  if (!mayMove)
    return Launches::Program;
  return candidate.parallel.getPp() > 1 ? Launches::Kept : Launches::Reordered;
}

/// Whether each micro-batch exchanges parameters or gradients with all data-parallel ranks. With ZeRO-1 the first one
/// does. These exchanges run beside the layers before and after their own.
static bool exchangesBesideLayers(const Candidate &candidate) {
  return candidate.zero >= 2 || (candidate.zero == 1 && candidate.microBatches == 1);
}

/// The choices of `candidate` for one stage, on `dp` data-parallel ranks.
static StepChoice getSampleChoice(const Candidate &candidate, int64_t dp) {
  StepChoice one = candidate;
  one.parallel = getStageParallel(candidate.parallel, dp);
  one.interleave = 1;
  one.pipelineOrder = PipelineOrder::OneForwardOneBackward;
  one.stageBoundaries.clear();
  return one;
}

/// Names the sample of `choice`: all samples of several micro-batches are the same.
static std::string getSampleName(StepChoice choice, Launches launches, bool isBesideOthers) {
  choice.microBatches = std::min<int64_t>(choice.microBatches, 2);
  choice.sideBySide = 1;
  return llvm::formatv("{0} {1} {2}", describeOptions(choice), static_cast<int>(launches), isBesideOthers);
}

template <class Cost>
const StepEstimator::Sample<Cost> &StepEstimator::find(Samples<Cost> &known, StringRef name,
                                                       function_ref<std::optional<Cost>(std::string &)> take) {
  {
    std::lock_guard lock(mutex);
    if (auto one = known.find(name); one != known.end())
      return *one->second;
  }
  auto sample = std::make_unique<Sample<Cost>>();
  sample->cost = take(sample->reason);
  std::lock_guard lock(mutex);
  // Another thread may have inserted the sample.
  return *known.try_emplace(name, std::move(sample)).first->second;
}

const StepEstimator::Sample<ModelCost> &StepEstimator::getSample(const Candidate &candidate, int64_t dp, bool isRough) {
  ParallelAttr all = candidate.parallel;
  Launches launches = getLaunches(candidate, options);
  bool isBesideOthers =
      launches == Launches::Reordered || (all.getPp() == 1 && !isRough && exchangesBesideLayers(candidate));
  StepChoice choice = getSampleChoice(candidate, dp);
  return find<ModelCost>(samples, getSampleName(choice, launches, isBesideOthers), [&](std::string &reason) {
    PlanOptions one = getChoiceOptions(choice, options);
    if (launches == Launches::Kept)
      one.order = OrderPolicy::Program;
    ModelForm form{dp, choice.batch, choice.maxLoad};
    if (!isBesideOthers)
      return sampleModel(source, kinds, form, one, size, reason);
    std::optional<ModelCost> cost = sampleModelByDifference(source, kinds, form, one, reason);
    // Differences of steps do not tell the class of the step.
    std::string ignored;
    if (cost && size == SampleSize::Large)
      if (std::optional<SampledParts> parts = sampleParts(readBlocks(source, form, kinds), one, ignored))
        cost->measured = parts->measured;
    return cost;
  });
}

double StepEstimator::getTransferSeconds(int64_t distance, double bytes) {
  std::lock_guard lock(mutex);
  auto [known, isNew] = transfers.try_emplace({distance, static_cast<int64_t>(bytes)}, 0);
  if (!isNew)
    return known->second;
  if (!model) {
    llvm::Expected<std::unique_ptr<CostModel>> made = CostModel::create(*options.cluster, world, CostForm::ClosedForm);
    if (!made) {
      llvm::consumeError(made.takeError());
      return 0;
    }
    model = std::move(*made);
  }
  int64_t ranks[] = {0, distance};
  llvm::Expected<double> seconds = model->getSeconds(GroupExchange{
      .collective = Collective::Broadcast, .dtype = "", .payload = static_cast<int64_t>(bytes), .ranks = ranks});
  // A transfer without a known time is taken as 0: the compiled step reports the error.
  if (!seconds)
    llvm::consumeError(seconds.takeError());
  else
    known->second = *seconds;
  return known->second;
}

int64_t mlir::moe::limitDp(ParallelAttr parallel, int64_t most) {
  int64_t dp = parallel.getDp(), experts = parallel.getEp() * parallel.getEsp();
  int64_t others = parallel.getCp() * parallel.getMp();
  while (dp > most && dp % 2 == 0 && dp / 2 * others % experts == 0)
    dp /= 2;
  return dp;
}

/// Data-parallel ranks of a sample: all that exchange in a stage, and the others of their nodes. More do the same.
static int64_t getSampledDp(ParallelAttr parallel, int64_t devicesPerNode) {
  int64_t others = parallel.getCp() * parallel.getMp();
  int64_t ranks = std::max({others, parallel.getEp() * parallel.getEsp(), devicesPerNode});
  int64_t dp = ranks / others;
  bool isPart = ranks % others == 0 && ranks % (parallel.getEp() * parallel.getEsp()) == 0 && dp <= parallel.getDp() &&
                parallel.getDp() % dp == 0;
  return isPart ? dp : parallel.getDp();
}

/// Scales costs that `parts` have once to those of `like` in sum, each its share, or equally if no part has any.
static void scaleOnce(SmallVector<PartCost> &parts, ArrayRef<PartCost> like) {
  auto scale = [&](double PartCost::*member) {
    double own = 0, all = 0;
    for (const PartCost &part : parts)
      own += part.*member;
    for (const PartCost &part : like)
      all += part.*member;
    for (PartCost &part : parts)
      part.*member = own > 0 ? part.*member * all / own : all / static_cast<double>(parts.size());
  };
  scale(&PartCost::once);
  scale(&PartCost::held);
  scale(&PartCost::tail);
}

/// Combines two samples. A micro-batch is the same on any number of data-parallel ranks, and in some schedules all of
/// them are simulated. The work that is done once, the sums of gradients and the optimizer, is the same in all
/// schedules.
std::optional<ModelCost> StepEstimator::getCost(Candidate candidate, std::optional<int64_t> roughDp,
                                                std::string &reason) {
  if (roughDp)
    candidate.microBatches = 1;
  // More ranks than that hold little less each, unless they divide parameters or gradients, and take as long to add
  // gradients up.
  int64_t most = candidate.zero >= 2 ? candidate.parallel.getDp() : 256;
  int64_t onceDp = roughDp.value_or(limitDp(candidate.parallel, most));
  // Reordered launches mix the work that is done once with that of micro-batches.
  bool isOfAll = getLaunches(candidate, options) == Launches::Reordered || exchangesBesideLayers(candidate);
  int64_t dp = isOfAll ? onceDp : getSampledDp(candidate.parallel, options.cluster->devicesPerNode);
  const Sample<ModelCost> &sample = getSample(candidate, dp, roughDp.has_value());
  if (!sample.cost) {
    reason = sample.reason;
    return std::nullopt;
  }
  ModelCost cost = *sample.cost;
  if (dp == onceDp)
    return cost;
  Candidate plain = candidate;
  // Schedules that send rows to their experts divide experts as the baseline does.
  FailureOr<ParsedSchedule> schedule = parseSchedule(candidate.parallel.getContext(), candidate.schedule);
  if (succeeded(schedule) && schedule->hasExchanges())
    plain.schedule = "baseline";
  plain.recompute = Recompute::None;
  plain.sequenceParallel = false;
  plain.batch = 1;
  plain.maxLoad.reset();
  const Sample<ModelCost> &once = getSample(plain, onceDp, roughDp.has_value());
  if (!once.cost) {
    reason = once.reason;
    return std::nullopt;
  }
  scaleOnce(cost.begin, once.cost->begin);
  scaleOnce(cost.end, once.cost->end);
  for (auto [parts, like] : llvm::zip_equal(cost.kindParts, once.cost->kindParts))
    scaleOnce(parts, like);
  return cost;
}

/// If the host waits for nothing, it only bounds the time of a window, whatever runs in it. A sample has other bounds
/// than the model, so that it is taken without the host.
const StepEstimator::Sample<WindowCost> &StepEstimator::getWindows(const Candidate &candidate) {
  StepChoice choice = getSampleChoice(candidate, getSampledDp(candidate.parallel, options.cluster->devicesPerNode));
  choice.pipelineOrder = candidate.pipelineOrder;
  return find<WindowCost>(windows, getSampleName(choice, Launches::Kept, false), [&](std::string &reason) {
    PlanOptions one = getChoiceOptions(choice, options);
    ClusterProfile cluster = *options.cluster;
    if (cluster.host.awaited.empty() && !cluster.host.countsSeconds)
      cluster.host = {};
    one.cluster = &cluster;
    return sampleWindows(source, kinds, {choice.parallel.getDp(), choice.batch, choice.maxLoad}, one, reason);
  });
}

std::optional<PipelineEstimate> StepEstimator::estimate(const Candidate &candidate, std::string &reason,
                                                        std::optional<int64_t> roughDp) {
  std::optional<ModelCost> cost = getCost(candidate, roughDp, reason);
  if (!cost)
    return std::nullopt;
  int64_t pp = candidate.parallel.getPp();
  PipelineShape shape{pp, pp * candidate.interleave, candidate.microBatches, options.train};
  bool hasWindows = size == SampleSize::Large && isOverlapped(candidate.pipelineOrder);
  if (hasWindows) {
    const Sample<WindowCost> &sample = getWindows(candidate);
    if (!sample.cost) {
      reason = sample.reason;
      return std::nullopt;
    }
    sample.cost->addTo(*cost);
  }
  if ((pp > 1 && isEstimated(candidate.pipelineOrder)) || hasWindows)
    shape.order = candidate.pipelineOrder;
  // A search changes a candidate, and then finds other boundaries.
  StageCuts cuts;
  cuts.wholeBlocks = options.rules && options.rules->wholeBlocks;
  if (size == SampleSize::Large)
    cuts.boundaries = candidate.stageBoundaries;
  std::optional<PipelineEstimate> estimate = estimatePipeline(
      *cost, kindOf, shape, cuts, orders, [&](double bytes) { return getTransferSeconds(world / pp, bytes); });
  if (estimate)
    estimate->measured = cost->measured;
  else
    reason = "the model can be cut in fewer places than " + std::to_string(shape.stages) + " stages need";
  return estimate;
}

std::optional<BlockParts> StepEstimator::countParts(const Candidate &candidate, std::string &reason) {
  std::optional<ModelCost> cost = getCost(candidate, /*roughDp=*/std::nullopt, reason);
  if (!cost)
    return std::nullopt;
  BlockParts parts{static_cast<int64_t>(cost->begin.size()), static_cast<int64_t>(cost->end.size()), {}};
  for (size_t kind : kindOf)
    parts.blocks.push_back(static_cast<int64_t>(cost->kindParts[kind].size()));
  return parts;
}
