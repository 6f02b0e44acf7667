//===- AutoParallel.cpp - the best groups for a model on a cluster --------===//
#include "moe/Planner/AutoParallel.h"

#include "StepEstimator.h"
#include "Threads.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Pipeline/Schedule.h"
#include "moe/Planner/SearchSpace.h"
#include "moe/Support/ByteSize.h"

#include <atomic>
#include <mutex>

using namespace mlir;
using namespace mlir::moe;

/// How many times as much memory as estimated is taken to be needed.
static constexpr double kMemoryMargin = 1.03;

namespace {
class ParallelSearch {
public:
  ParallelSearch(const ModelSource &source, const ParallelRequest &request, const CompileOptions &options)
      : source(source), request(request), options(options), context(options.parallel.getContext()) {}

  /// Finds the best; null after an error.
  Candidate *run();
  GroupsExplanation explain();
  /// The plan of the best, or of the next where that turns out too large.
  FailureOr<OwningOpRef<ModuleOp>> compileBest();

private:
  bool isSampled() const { return !source.kinds.empty(); }
  LogicalResult addSpace();
  void addCandidate(ParallelAttr parallel);
  /// The batch, and micro-batches; a reason where there are none.
  void setBatch(Candidate &candidate, int64_t batch) const;
  CompileOptions getOptions(const Candidate &candidate) const { return getCandidateOptions(candidate, options); }
  /// Schedules that are simple enough to be tried with all groups.
  SmallVector<std::string> getSchedules(ParallelAttr parallel) const;
  SmallVector<int64_t> getInterleaves(const Candidate &candidate) const;
  bool fits(int64_t bytes) const { return limit == 0 || bytes <= limit; }
  /// The same of an estimate, which knows nothing of gaps between buffers.
  bool mayFit(int64_t bytes) const { return fits(static_cast<int64_t>(kMemoryMargin * static_cast<double>(bytes))); }
  void refuse(Candidate &candidate, Verdict verdict, const std::string &reason) const {
    candidate.verdict = verdict;
    candidate.reason = reason;
  }
  void refuseSize(Candidate &candidate, StringRef what);

  void measureWhole(Candidate &candidate);
  void roughlyEstimateAll();
  void roughlyEstimate(MutableArrayRef<Candidate *> alike);
  void estimateNearest();
  void estimate(Candidate &candidate);
  void compareAll(Candidate like, StringRef schedule, Recompute recompute, std::optional<Candidate> &best,
                  std::string &reason, std::optional<int64_t> roughDp = std::nullopt);
  void compareBatches(std::optional<Candidate> &best, std::string &reason);
  void compare(Candidate one, std::optional<Candidate> &best, std::string &reason,
               std::optional<int64_t> roughDp = std::nullopt);
  /// Seconds, by which candidates are compared.
  double getCost(const Candidate &candidate) const {
    return request.objective == Objective::StepTime ? candidate.getStepSeconds() : getSecondsPerSequence(candidate);
  }
  double getSecondsPerSequence(const Candidate &candidate) const {
    int64_t ranks = source.isFixed ? 1 : candidate.batch * candidate.parallel.getDp();
    return candidate.getStepSeconds() / static_cast<double>(ranks * candidate.microBatches);
  }
  /// Those that may be taken, the fastest first.
  SmallVector<Candidate *> sort();
  bool compileWhole(Candidate &candidate);
  void correctEstimates();
  void compileNearest();
  void failToFind();
  LogicalResult setFigures(OwningOpRef<ModuleOp> &module, Candidate &best) const;
  FailureOr<OwningOpRef<ModuleOp>> compileOne(const Candidate &candidate, bool findChanges);
  void takeRoughly();
  void searchNearest();
  Candidate *choose();
  std::optional<Margin> getMargin(const Candidate &best) const;
  void showProgress(StringRef phase, size_t done, size_t all);
  /// Does 0 to `count` - 1, or fewer where the search is stopped; each must leave the others alone.
  void visitAll(StringRef phase, size_t count, function_ref<void(size_t)> run);
  /// Asks `isGood` of one after the other until it has been so of `enough`.
  void visitBest(StringRef phase, ArrayRef<Candidate *> sorted, size_t enough, function_ref<bool(Candidate &)> isGood);
  /// Notes `candidate` as the best so far, if it is.
  void noteBest(const Candidate &candidate);
  /// What is known from now on is all that there will be.
  bool isStopped() { return stopped = stopped || options.isStoppedEarly(); }

  const ModelSource &source;
  const ParallelRequest &request;
  const CompileOptions &options;
  MLIRContext *context;
  int64_t limit = 0;
  int64_t tokens = 0; ///< of a sequence; of a fixed graph, of a micro-batch
  std::optional<StepEstimator> estimator;
  std::vector<Candidate> candidates;
  std::optional<Margin> margin;
  std::mutex progress;
  std::optional<Candidate> bestSoFar;
  std::atomic<bool> stopped = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// The space
//===----------------------------------------------------------------------===//

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
  if (candidate.microBatches > kMaxMicroBatches)
    refuse(candidate, Verdict::Illegal,
           "the global batch is more than " + std::to_string(kMaxMicroBatches) + " micro-batches");
}

SmallVector<int64_t> ParallelSearch::getInterleaves(const Candidate &candidate) const {
  int64_t pp = candidate.parallel.getPp();
  SmallVector<int64_t> legal;
  for (int64_t interleave : request.space.interleaves)
    if (interleave == 1 || (pp > 1 && candidate.microBatches % pp == 0))
      legal.push_back(interleave);
  return legal;
}

bool GivenGroups::allow(ParallelAttr all) const {
  auto isAs = [](std::optional<int64_t> given, int64_t size) { return !given || *given == size; };
  return isAs(pp, all.getPp()) && isAs(dp, all.getDp()) && isAs(mp, all.getMp()) && isAs(ep, all.getEp()) &&
         isAs(esp, all.getEsp());
}

/// With the first of all that the request leaves open, and the first batch that divides the global one.
void ParallelSearch::addCandidate(ParallelAttr parallel) {
  Candidate &candidate = candidates.emplace_back();
  candidate.parallel = parallel;
  candidate.interleave = request.space.interleaves.front();
  candidate.recompute = request.space.recomputes.front();
  candidate.zero = request.space.zeros.front();
  candidate.sequenceParallel = request.space.sequenceParallels.front() && parallel.getMp() > 1;
  candidate.verdict = Verdict::Skipped;
  setBatch(candidate, request.space.batches.front());
  if (candidate.verdict != Verdict::Illegal && getInterleaves(candidate).empty())
    refuse(candidate, Verdict::Illegal, "--interleave needs a pipeline, and micro-batches that are a multiple of pp");
}

LogicalResult ParallelSearch::addSpace() {
  int64_t most = options.cluster->getMaxDevices();
  if (request.world > most)
    return emitUsageError(context) << "expected --world of at most the " << most << " devices of cluster '"
                                   << options.cluster->name << "' but got " << request.world;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, /*dataParallel=*/1, /*batch=*/1, {});
  if (failed(graph))
    return failure();
  tokens = getTokens(**graph);
  int64_t layers = 0, experts = 1;
  (*graph)->walk([&](LayerOp layer) {
    ++layers;
    experts = std::max(experts, layer.getW1().getType().getDimSize(0));
  });
  int64_t stages = isSampled() ? static_cast<int64_t>(source.kinds.size()) : std::max<int64_t>(layers, 1);
  for (ParallelAttr parallel :
       getParallelSpace(context, request.world, stages, experts, options.cluster->devicesPerNode))
    if (request.given.allow(parallel))
      addCandidate(parallel);
  if (candidates.empty())
    return emitUsageError(context) << "expected sizes of groups that " << request.world
                                   << " ranks can have, but none has the given ones";
  return success();
}

CompileOptions mlir::moe::getCandidateOptions(const Candidate &candidate, const CompileOptions &options) {
  CompileOptions one = options;
  one.parallel = candidate.parallel;
  one.microBatches = candidate.microBatches;
  one.interleave = candidate.interleave;
  one.stageBoundaries = candidate.stageBoundaries;
  one.recompute = candidate.recompute;
  one.sequenceParallel = candidate.sequenceParallel;
  if (one.optimizer)
    one.optimizer->zero = candidate.zero;
  one.stage = Stage::Plan;
  one.reference = false;
  one.memoryLimit = 0;
  one.findChanges = false;
  one.schedule = candidate.schedule;
  return one;
}

SmallVector<std::string> ParallelSearch::getSchedules(ParallelAttr parallel) const {
  if (options.schedule != "auto")
    return {options.schedule};
  SmallVector<std::string> schedules;
  for (const ParsedSchedule &schedule : getCombinations()) {
    bool isLayerAlone = !schedule.saa && !schedule.dependsOnRouting();
    // Where no tokens are there twice, those that share them come to the same.
    if (isLayerAlone && (parallel.getMp() > 1 || !schedule.sharesTokens()))
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

//===----------------------------------------------------------------------===//
// Graphs that are small enough to be compiled in all groups
//===----------------------------------------------------------------------===//

static std::string describeMemory(const ProgramMemory &memory) {
  std::string text;
  auto giga = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  llvm::raw_string_ostream(text) << llvm::format(
      "%.1f GB parameters, %.1f GB gradients and states, %.1f GB values and arena", giga(memory.parameters),
      giga(memory.gradients + memory.states + memory.getOptimizerStates()), giga(memory.values + memory.arena));
  return text;
}

/// The fastest of the schedules that fit, or the smallest.
void ParallelSearch::measureWhole(Candidate &candidate) {
  std::optional<WholeModel> best;
  std::string first;
  for (const std::string &schedule : getSchedules(candidate.parallel)) {
    candidate.schedule = schedule;
    std::string reason;
    std::optional<WholeModel> whole =
        measureModel(readBlocks(source, candidate.parallel, candidate.batch), getOptions(candidate), reason);
    if (first.empty())
      first = reason;
    if (!whole)
      continue;
    whole->schedule = schedule;
    auto rank = [&](const StepFigures &one) { return std::pair(fits(one.bytes) ? 0 : one.bytes, one.seconds); };
    if (!best || rank(whole->step) < rank(best->step))
      best = std::move(whole);
  }
  if (!best)
    return refuse(candidate, Verdict::Illegal, first);
  candidate.schedule = best->schedule;
  candidate.estimate = candidate.whole = best->step;
  candidate.verdict = Verdict::Estimated;
  if (!fits(candidate.whole.bytes))
    refuseSize(candidate, describeMemory(best->memory));
}

//===----------------------------------------------------------------------===//
// Whole models
//===----------------------------------------------------------------------===//

/// Takes `one`, with what is estimated of it, for `best` if it is better: it fits and is faster, or needs less.
void ParallelSearch::compare(Candidate one, std::optional<Candidate> &best, std::string &reason,
                             std::optional<int64_t> roughDp) {
  std::string why;
  std::optional<PipelineEstimate> step = estimator->estimate(one, why, roughDp);
  if (reason.empty())
    reason = why;
  if (!step)
    return;
  one.estimate.seconds = step->seconds;
  one.stageBoundaries = step->stageBoundaries;
  one.estimate.bytes = static_cast<int64_t>(step->bytes * one.memoryScale);
  auto rank = [&](const Candidate &other) {
    return std::pair(mayFit(other.estimate.bytes) ? 0 : other.estimate.bytes, other.estimate.seconds);
  };
  if (!best || rank(one) < rank(*best))
    best = std::move(one);
}

/// Of groups that differ in pp alone, as if all had many data-parallel ranks: fewer ranks divide the optimizer's states
/// among fewer, so that they need more memory.
void ParallelSearch::roughlyEstimate(MutableArrayRef<Candidate *> alike) {
  // More ranks than that hold little less each, and take as long to add gradients up.
  int64_t dp = limitDp(alike.front()->parallel, /*most=*/64);
  ArrayRef<Recompute> recomputes = request.space.recomputes;
  for (Candidate *candidate : alike) {
    std::optional<Candidate> best;
    std::string reason;
    // The schedules are compared with what needs the least memory. The baseline, which comes first, computes each token
    // on all members of mp: it is tried where no other one can be.
    SmallVector<std::string> schedules = getSchedules(candidate->parallel);
    for (const std::string &schedule : ArrayRef(schedules).drop_front(schedules.size() > 1))
      compareAll(*candidate, schedule, recomputes.back(), best, reason, dp);
    if (!best)
      compareAll(*candidate, schedules.front(), recomputes.back(), best, reason, dp);
    if (best && recomputes.size() > 1)
      compareAll(*candidate, best->schedule, recomputes.front(), best, reason, dp);
    if (!best) {
      refuse(*candidate, Verdict::Illegal, reason);
      continue;
    }
    *candidate = *best;
    refuse(*candidate, Verdict::Slower, "by a rough estimate");
    if (!mayFit(candidate->estimate.bytes))
      refuseSize(*candidate, "by a rough estimate that leaves out some of the optimizer's states");
    noteBest(*candidate);
  }
}

void ParallelSearch::roughlyEstimateAll() {
  std::vector<SmallVector<Candidate *>> groups;
  llvm::StringMap<size_t> places;
  for (Candidate &candidate : candidates) {
    if (candidate.verdict == Verdict::Illegal)
      continue;
    ParallelAttr all = candidate.parallel;
    std::string name = llvm::formatv("{0} {1} {2}", all.getMp(), all.getEp(), all.getEsp());
    auto [place, isNew] = places.try_emplace(name, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[place->second].push_back(&candidate);
  }
  visitAll("rough estimates", groups.size(), [&](size_t index) { roughlyEstimate(groups[index]); });
}

/// `like` in a schedule, with each number of stages of a device that can be.
void ParallelSearch::compareAll(Candidate like, StringRef schedule, Recompute recompute, std::optional<Candidate> &best,
                                std::string &reason, std::optional<int64_t> roughDp) {
  like.schedule = schedule.str();
  like.recompute = recompute;
  for (int64_t interleave : getInterleaves(like)) {
    like.interleave = interleave;
    compare(like, best, reason, roughDp);
  }
}

/// Larger micro-batches than `best` has, while they are better.
void ParallelSearch::compareBatches(std::optional<Candidate> &best, std::string &reason) {
  for (int64_t batch : request.space.batches) {
    if (batch <= best->batch)
      continue;
    Candidate one = *best;
    setBatch(one, batch);
    if (one.verdict == Verdict::Illegal)
      return;
    for (Recompute recompute : request.space.recomputes)
      compareAll(one, one.schedule, recompute, best, reason);
    if (best->batch != batch)
      return;
  }
}

/// The fastest that fits. What the request leaves open is varied in turn, each from the best of what was varied before.
void ParallelSearch::estimate(Candidate &candidate) {
  std::optional<Candidate> best;
  std::string reason;
  const StepSpace &space = request.space;
  candidate.verdict = Verdict::Skipped;
  SmallVector<std::string> schedules = getSchedules(candidate.parallel);
  std::string likely = candidate.schedule.empty() ? schedules.front() : candidate.schedule;
  for (Recompute recompute : space.recomputes)
    compareAll(candidate, likely, recompute, best, reason);
  for (const std::string &schedule : schedules)
    if (schedule != likely)
      compareAll(best ? *best : candidate, schedule, best ? best->recompute : space.recomputes.back(), best, reason);
  if (!best)
    return refuse(candidate, Verdict::Illegal, reason);
  compareBatches(best, reason);
  auto vary = [&](auto Candidate::*member, auto values) {
    for (auto value : ArrayRef(values).drop_front()) {
      Candidate one = *best;
      one.*member = value;
      compare(one, best, reason);
    }
  };
  vary(&Candidate::zero, ArrayRef(space.zeros));
  if (candidate.parallel.getMp() > 1)
    vary(&Candidate::sequenceParallel, ArrayRef(space.sequenceParallels));
  candidate = std::move(*best);
  refuse(candidate, Verdict::Estimated, "");
  if (!mayFit(candidate.estimate.bytes))
    refuseSize(candidate, "by samples, which leave out about 3% for gaps between buffers");
  noteBest(candidate);
}

/// Closer estimates in the order of the rough ones, until enough fit.
void ParallelSearch::estimateNearest() {
  constexpr size_t enough = 24;
  SmallVector<Candidate *> sorted;
  for (Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Slower)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](Candidate *a, Candidate *b) { return getCost(*a) < getCost(*b); });
  visitBest("estimates that fit", sorted, enough, [&](Candidate &candidate) {
    estimate(candidate);
    return candidate.verdict == Verdict::Estimated;
  });
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

/// Whether it can be, and fits. What needs more than was estimated is estimated again, with that much more: it may fit
/// with less kept for the backward.
bool ParallelSearch::compileWhole(Candidate &candidate) {
  std::string reason;
  std::optional<WholeModel> whole =
      measureFilledModel(readBlocks(source, candidate.parallel, candidate.batch), getOptions(candidate), /*limit=*/0,
                         reason, [&](int64_t fewer) { return estimator->getGrowth(candidate, fewer); });
  if (!whole) {
    refuse(candidate, Verdict::Illegal, reason);
    return false;
  }
  if (fits(whole->step.bytes)) {
    candidate.whole = whole->step;
    candidate.verdict = Verdict::Compiled;
    noteBest(candidate);
    return true;
  }
  if (candidate.memoryScale == 1 && whole->step.bytes > candidate.estimate.bytes) {
    candidate.memoryScale = static_cast<double>(whole->step.bytes) / static_cast<double>(candidate.estimate.bytes);
    estimate(candidate);
    if (candidate.verdict == Verdict::Estimated)
      return false;
  }
  candidate.whole = whole->step;
  refuseSize(candidate, describeMemory(whole->memory));
  return false;
}

/// By how much steps took longer than their estimates, the others' estimates are raised: what is left out of one is
/// left out of all.
void ParallelSearch::correctEstimates() {
  double ratio = 0;
  int64_t count = 0;
  for (const Candidate &one : candidates)
    if (one.verdict == Verdict::Compiled) {
      ratio += one.whole.seconds / one.estimate.seconds;
      ++count;
    }
  for (Candidate &one : candidates)
    if (one.verdict == Verdict::Estimated && count > 0)
      one.estimate.seconds *= std::max(1.0, ratio / static_cast<double>(count));
}

/// The nearest by estimate, then all that by their estimates may be faster than the fastest of these.
void ParallelSearch::compileNearest() {
  constexpr size_t compared = 2;
  visitBest("whole plans", sort(), compared, [&](Candidate &candidate) { return compileWhole(candidate); });
  correctEstimates();
  while (!isStopped()) {
    SmallVector<Candidate *> sorted = sort(), faster;
    for (Candidate *candidate : sorted)
      if (candidate->verdict == Verdict::Estimated &&
          (sorted.front()->verdict == Verdict::Estimated || getCost(*candidate) < getCost(*sorted.front())))
        faster.push_back(candidate);
    if (faster.empty())
      return;
    // The fastest of these may rule out the others.
    faster.truncate(std::min(faster.size(), compared));
    visitAll("whole plans that may be faster", faster.size(), [&](size_t index) { compileWhole(*faster[index]); });
  }
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

void ParallelSearch::failToFind() {
  const Candidate *smallest = nullptr, *illegal = nullptr;
  for (const Candidate &candidate : candidates) {
    if (candidate.verdict == Verdict::TooLarge && (!smallest || candidate.getBytes() < smallest->getBytes()))
      smallest = &candidate;
    if (candidate.verdict == Verdict::Illegal && !illegal)
      illegal = &candidate;
  }
  InFlightDiagnostic error = emitUsageError(context) << "expected groups of " << request.world << " ranks ";
  if (stopped)
    error << "but the search was interrupted before any " << (smallest ? "that fit " : "") << "were compared";
  else if (smallest)
    error << "in which a plan has at most " << formatByteSize(limit) << " a rank, but the smallest of "
          << candidates.size() << " needs more, that of " << describe(*smallest) << ": " << smallest->reason;
  else
    error << "that can be" << (illegal ? ", but of " + describe(*illegal) + " the passes say: " + illegal->reason : "");
  if (stopped || !smallest || !request.describeRemedies)
    return;
  std::string remedies = request.describeRemedies(getOptions(*smallest), smallest->whole.bytes, limit);
  if (!remedies.empty())
    error.attachNote() << remedies;
}

/// Where the search was stopped before any closer estimate, the best by the rough ones has to do.
void ParallelSearch::takeRoughly() {
  if (!isStopped() || !sort().empty())
    return;
  Candidate *best = nullptr;
  for (Candidate &one : candidates)
    if (one.verdict == Verdict::Slower && (!best || getCost(one) < getCost(*best)))
      best = &one;
  if (best)
    refuse(*best, Verdict::Estimated, "");
}

/// Some of the nearest in the best schedule of each.
void ParallelSearch::searchNearest() {
  constexpr size_t compared = 3;
  visitBest("groups with their best schedules", sort(), compared, [&](Candidate &candidate) {
    if (candidate.verdict == Verdict::Compiled)
      return true;
    CompileOptions one = getOptions(candidate);
    one.schedule = options.schedule;
    one.memoryLimit = limit;
    one.showProgress = nullptr;
    std::string reason;
    std::optional<WholeModel> whole =
        measureModel(readBlocks(source, candidate.parallel, candidate.batch), one, reason);
    // A search that was stopped has nothing to say against the candidate.
    if (!whole && !isStopped())
      refuse(candidate, Verdict::Illegal, reason);
    if (!whole)
      return false;
    candidate.whole = whole->step;
    candidate.schedule = whole->schedule;
    candidate.verdict = Verdict::Compiled;
    noteBest(candidate);
    return true;
  });
}

/// The fastest with the schedule that is asked for; null where there is none.
Candidate *ParallelSearch::choose() {
  // A large model is compiled once: its nearest were compared as a whole, in a simple schedule.
  if (options.schedule == "auto" && !isSampled() && !isStopped())
    searchNearest();
  SmallVector<Candidate *> sorted = sort();
  if (sorted.empty())
    return nullptr;
  margin = getMargin(*sorted.front());
  return sorted.front();
}

/// How far `best` is from the others. An estimate is as uncertain as estimates are.
std::optional<Margin> ParallelSearch::getMargin(const Candidate &best) const {
  auto getChoice = [&](const Candidate &one) {
    double own = one.whole.seconds > 0 ? one.whole.uncertainty : isSampled() ? kEstimateError : 0;
    return Choice{describe(one), getCost(one), own};
  };
  SmallVector<Choice> others;
  for (const Candidate &one : candidates)
    if (&one != &best && (one.verdict == Verdict::Estimated || one.verdict == Verdict::Compiled))
      others.push_back(getChoice(one));
  return moe::getMargin(getChoice(best), std::move(others));
}

GroupsExplanation ParallelSearch::explain() {
  // However a model is divided, a token takes as many FLOPs.
  const StepFigures &taken =
      llvm::find_if(candidates, [](const Candidate &one) { return one.verdict == Verdict::Chosen; })->whole;
  double share = static_cast<double>(tokens) / static_cast<double>(request.world);
  StepWork work = taken.work * (taken.work.tokens > 0 ? share / taken.work.tokens : 0);
  for (Candidate &candidate : candidates) {
    candidate.secondsPerSequence = getSecondsPerSequence(candidate);
    candidate.speed = getSpeed(work, candidate.secondsPerSequence, taken.peakFlops);
  }
  return {std::move(candidates), request.objective, !stopped, margin};
}

Candidate *ParallelSearch::run() {
  if (failed(addSpace()))
    return nullptr;
  limit = options.memoryLimit;
  // What a host has is not known here.
  if (limit == 0 && options.cluster->processors.count == 0)
    limit = static_cast<int64_t>(options.cluster->memoryBytes);
  if (isSampled()) {
    estimator.emplace(source, options, request.world);
    roughlyEstimateAll();
    estimateNearest();
    compileNearest();
    takeRoughly();
  } else {
    visitAll("groups", candidates.size(), [&](size_t index) {
      if (candidates[index].verdict != Verdict::Illegal)
        measureWhole(candidates[index]);
    });
  }
  Candidate *best = choose();
  if (!best)
    failToFind();
  return best;
}

//===----------------------------------------------------------------------===//
// A plan of the best
//===----------------------------------------------------------------------===//

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileOne(const Candidate &candidate, bool findChanges) {
  CompileOptions one = getOptions(candidate);
  one.stage = options.stage;
  one.reference = options.reference;
  one.memoryLimit = options.memoryLimit;
  one.findChanges = findChanges;
  if (!isStopped())
    one.schedule = options.schedule;
  if (options.schedule == "auto" && !isStopped())
    one.memoryLimit = limit;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, candidate.parallel.getDp(), candidate.batch, {});
  return failed(graph) ? FailureOr<OwningOpRef<ModuleOp>>(failure()) : compile(**graph, one);
}

/// Of the plan that is taken.
LogicalResult ParallelSearch::setFigures(OwningOpRef<ModuleOp> &module, Candidate &best) const {
  llvm::Expected<StepFigures> step = simulatePlan(module, getOptions(best));
  if (!step)
    return emitUsageError(context) << llvm::toString(step.takeError());
  best.verdict = Verdict::Chosen;
  best.whole = std::move(*step);
  if (auto schedule = (*module)->getAttrOfType<StringAttr>(plan::kScheduleAttrName))
    best.schedule = schedule.str();
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileBest() {
  for (Candidate *best = run(); best; best = choose()) {
    FailureOr<OwningOpRef<ModuleOp>> module = compileOne(*best, options.findChanges);
    if (failed(module) || failed(setFigures(*module, *best)))
      return failure();
    if (fits(best->whole.bytes)) {
      setExplanation(**module, explain());
      return module;
    }
    // More micro-batches, and another schedule, took more than the plan that was compared.
    refuseSize(*best, describeMemory(getMemory(getLargestProgram(**module))));
    if (sort().empty())
      failToFind();
  }
  return failure();
}

FailureOr<GroupsExplanation> mlir::moe::chooseParallel(const ModelSource &source, const ParallelRequest &request,
                                                       const CompileOptions &options) {
  ParallelSearch search(source, request, options);
  Candidate *best = search.run();
  if (!best)
    return failure();
  best->verdict = Verdict::Chosen;
  return search.explain();
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileBestParallel(const ModelSource &source,
                                                                const ParallelRequest &request,
                                                                const CompileOptions &options) {
  return ParallelSearch(source, request, options).compileBest();
}
