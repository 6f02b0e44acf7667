//===- AutoParallel.cpp - the best groups for a model on a cluster --------===//
#include "moe/Planner/AutoParallel.h"

#include "ModelSamples.h"
#include "Threads.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

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

namespace {
class ParallelSearch {
public:
  ParallelSearch(const ModelSource &source, const ParallelRequest &request, const CompileOptions &options)
      : source(source), request(request), options(options), context(options.parallel.getContext()) {}

  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  bool isSampled() const { return !source.kinds.empty(); }
  LogicalResult addSpace();
  /// The batch of each data-parallel rank, and micro-batches; a reason where there are none.
  void setBatches(Candidate &candidate) const;
  CompileOptions getOptions(const Candidate &candidate) const;
  /// Schedules that are simple enough to be tried with all groups.
  SmallVector<std::string> getSchedules(ParallelAttr parallel) const;
  bool fits(int64_t bytes) const { return limit == 0 || bytes <= limit; }
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
  void compileNearest();
  LogicalResult failToFind();
  LogicalResult setFigures(OwningOpRef<ModuleOp> &module, Candidate &best) const;
  void explain(ModuleOp module, const std::optional<Margin> &margin);
  FailureOr<OwningOpRef<ModuleOp>> finish();
  FailureOr<OwningOpRef<ModuleOp>> compileOne(const Candidate &candidate, bool findChanges);
  void searchNearest();
  Candidate *choose();
  std::optional<Margin> getMargin(const Candidate &best) const;
  void showProgress(StringRef what, size_t done, size_t all) const;
  /// Does 0 to `count` - 1, or fewer where the search is stopped; each must leave the others alone.
  void visitAll(StringRef what, size_t count, function_ref<void(size_t)> run);
  /// Asks `isGood` of one after the other until it has been so of `enough`.
  void visitBest(StringRef what, ArrayRef<Candidate *> sorted, size_t enough, function_ref<bool(Candidate &)> isGood);
  /// What is known from now on is all that there will be.
  bool isStopped() { return stopped = stopped || options.isStoppedEarly(); }

  const ModelSource &source;
  const ParallelRequest &request;
  const CompileOptions &options;
  MLIRContext *context;
  int64_t limit = 0;
  int64_t tokens = 0; ///< of a sequence; of a fixed graph, of a micro-batch
  SmallVector<int64_t> kinds;
  SmallVector<size_t> kindOf; ///< of each block, its place in `kinds`
  std::vector<Candidate> candidates;
  std::atomic<bool> stopped = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// The space
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

void ParallelSearch::setBatches(Candidate &candidate) const {
  candidate.batch = request.batch;
  candidate.microBatches = request.microBatches;
  int64_t pp = candidate.parallel.getPp(), sequences = candidate.batch * candidate.parallel.getDp();
  if (request.globalBatch) {
    candidate.microBatches = *request.globalBatch / sequences;
    if (candidate.microBatches < 1 || *request.globalBatch % sequences != 0)
      return refuse(candidate, Verdict::Illegal, "dp x --batch does not divide the global batch");
    if (candidate.microBatches > kMaxMicroBatches)
      return refuse(candidate, Verdict::Illegal,
                    "the global batch is more than " + std::to_string(kMaxMicroBatches) + " micro-batches");
  }
  if (options.interleave > 1 && (pp == 1 || candidate.microBatches % pp != 0))
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
       getParallelSpace(context, request.world, stages, experts, options.cluster->devicesPerNode)) {
    Candidate &candidate = candidates.emplace_back();
    candidate.parallel = parallel;
    candidate.verdict = Verdict::Skipped;
    setBatches(candidate);
  }
  return success();
}

CompileOptions ParallelSearch::getOptions(const Candidate &candidate) const {
  CompileOptions one = options;
  one.parallel = candidate.parallel;
  one.microBatches = candidate.microBatches;
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

void ParallelSearch::showProgress(StringRef what, size_t done, size_t all) const {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\x1b[K" << what << ": " << done << " of " << all;
}

static void endProgress() {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\n";
}

void ParallelSearch::visitAll(StringRef what, size_t count, function_ref<void(size_t)> run) {
  std::mutex mutex;
  size_t done = 0;
  forAll(context, count, [&](size_t index) {
    if (isStopped())
      return;
    run(index);
    std::lock_guard lock(mutex);
    showProgress(what, ++done, count);
  });
  endProgress();
}

void ParallelSearch::visitBest(StringRef what, ArrayRef<Candidate *> sorted, size_t enough,
                               function_ref<bool(Candidate &)> isGood) {
  takeWhileFew(
      context, sorted.size(), enough, [&](size_t index) { return !isStopped() && isGood(*sorted[index]); },
      [&](size_t good) {
        showProgress(what, good, enough);
        return !isStopped();
      });
  endProgress();
}

void ParallelSearch::refuseSize(Candidate &candidate, StringRef what) {
  std::string reason;
  llvm::raw_string_ostream(reason) << llvm::format("%.1f GB a rank, more than %.1f GB; ",
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

/// `options` for a sample, which has all blocks in one stage.
static CompileOptions getSampleOptions(CompileOptions options) {
  options.parallel = getStageParallel(options.parallel);
  options.interleave = 1;
  return options;
}

/// Of groups that differ in pp alone, from one sample of the most frequent block, on the fewest data-parallel ranks.
/// The optimizer's states are left out, since more ranks may divide them.
void ParallelSearch::roughlyEstimate(MutableArrayRef<Candidate *> alike) {
  Candidate &smallest = *alike.back();
  smallest.schedule = getSchedules(smallest.parallel).front();
  int64_t frequent = *llvm::max_element(
      kinds, [&](int64_t a, int64_t b) { return llvm::count(source.kinds, a) < llvm::count(source.kinds, b); });
  CompileOptions one = getSampleOptions(getOptions(smallest));
  std::string reason;
  std::optional<ModelCost> cost = sampleModel(source, {frequent}, smallest.batch, one, reason);
  if (!cost)
    for (Candidate *candidate : alike)
      refuse(*candidate, Verdict::Illegal, reason);
  if (!cost)
    return;
  cost->kinds.front().held = cost->kinds.front().parameters * (options.train ? 2 : 1);
  SmallVector<size_t> blocks(source.kinds.size(), 0);
  for (Candidate *candidate : alike) {
    PipelineEstimate rough =
        estimatePipeline(*cost, blocks, candidate->parallel.getPp(), options.interleave, candidate->microBatches);
    candidate->estimate.seconds = rough.seconds;
    // Without what lies on the ends of the pipeline, and without states, which more ranks may divide.
    candidate->estimate.bytes = static_cast<int64_t>(rough.bytes - cost->rest.held);
    candidate->verdict = Verdict::Slower;
    candidate->reason = "by a rough estimate";
    if (!fits(candidate->estimate.bytes))
      refuseSize(*candidate, "by a rough estimate without the optimizer's states");
  }
}

void ParallelSearch::roughlyEstimateAll() {
  std::vector<SmallVector<Candidate *>> groups;
  llvm::StringMap<size_t> places;
  for (Candidate &candidate : candidates) {
    if (candidate.verdict == Verdict::Illegal)
      continue;
    ParallelAttr all = candidate.parallel;
    std::string name = llvm::formatv("{0} {1} {2} {3}", all.getMp(), all.getEp(), all.getEsp(), candidate.batch);
    auto [place, isNew] = places.try_emplace(name, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[place->second].push_back(&candidate);
  }
  visitAll("rough estimates", groups.size(), [&](size_t index) { roughlyEstimate(groups[index]); });
}

void ParallelSearch::estimate(Candidate &candidate) {
  std::string first, best;
  std::optional<PipelineEstimate> fastest;
  for (const std::string &schedule : getSchedules(candidate.parallel)) {
    candidate.schedule = schedule;
    std::string reason;
    std::optional<ModelCost> cost =
        sampleModel(source, kinds, candidate.batch, getSampleOptions(getOptions(candidate)), reason);
    if (first.empty())
      first = reason;
    if (!cost)
      continue;
    PipelineEstimate one =
        estimatePipeline(*cost, kindOf, candidate.parallel.getPp(), options.interleave, candidate.microBatches);
    auto rank = [&](const PipelineEstimate &one) {
      return std::pair(fits(static_cast<int64_t>(one.bytes)) ? 0 : one.bytes, one.seconds);
    };
    if (fastest && rank(*fastest) <= rank(one))
      continue;
    fastest = one;
    best = schedule;
  }
  if (!fastest)
    return refuse(candidate, Verdict::Illegal, first);
  candidate.schedule = best;
  candidate.estimate.seconds = fastest->seconds;
  candidate.estimate.bytes = static_cast<int64_t>(fastest->bytes);
  candidate.reason.clear();
  candidate.verdict = Verdict::Estimated;
  if (!fits(candidate.estimate.bytes))
    refuseSize(candidate, "by samples");
}

/// Closer estimates in the order of the rough ones, until enough fit.
void ParallelSearch::estimateNearest() {
  constexpr size_t enough = 10;
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

/// Whether it can be, and fits.
bool ParallelSearch::compileWhole(Candidate &candidate) {
  std::string reason;
  std::optional<WholeModel> whole = measureFilledModel(readBlocks(source, candidate.parallel, candidate.batch),
                                                       getOptions(candidate), /*limit=*/0, reason);
  if (!whole) {
    refuse(candidate, Verdict::Illegal, reason);
    return false;
  }
  candidate.whole = whole->step;
  candidate.verdict = Verdict::Compiled;
  if (fits(candidate.whole.bytes))
    return true;
  refuseSize(candidate, describeMemory(whole->memory));
  return false;
}

/// The nearest by estimate as they are, and all that by their estimates are faster than the fastest of these.
void ParallelSearch::compileNearest() {
  constexpr size_t compared = 3;
  visitBest("whole plans", sort(), compared, [&](Candidate &candidate) { return compileWhole(candidate); });
  SmallVector<Candidate *> sorted = sort(), faster;
  for (Candidate *candidate : sorted)
    if (candidate->verdict == Verdict::Estimated && getCost(*candidate) < getCost(*sorted.front()))
      faster.push_back(candidate);
  visitAll("whole plans that may be faster", faster.size(), [&](size_t index) { compileWhole(*faster[index]); });
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

LogicalResult ParallelSearch::failToFind() {
  const Candidate *smallest = nullptr, *illegal = nullptr;
  for (const Candidate &candidate : candidates) {
    if (candidate.verdict == Verdict::TooLarge && (!smallest || candidate.getBytes() < smallest->getBytes()))
      smallest = &candidate;
    if (candidate.verdict == Verdict::Illegal && !illegal)
      illegal = &candidate;
  }
  if (stopped)
    return emitUsageError(context) << "expected groups of " << request.world
                                   << " ranks but the search was interrupted before any "
                                   << (smallest ? "that fit " : "") << "were compared";
  if (smallest) {
    std::string remedies;
    if (request.describeRemedies)
      remedies = request.describeRemedies(getOptions(*smallest), smallest->whole.bytes, limit);
    InFlightDiagnostic error = emitUsageError(context)
                               << "expected groups of " << request.world << " ranks in which a plan has at most "
                               << formatByteSize(limit) << " a rank, but the smallest of " << candidates.size()
                               << " needs more, that of " << describe(smallest->parallel) << ": " << smallest->reason;
    if (!remedies.empty())
      error.attachNote() << remedies;
    return error;
  }
  InFlightDiagnostic error = emitUsageError(context) << "expected groups of " << request.world << " ranks that can be";
  if (illegal)
    error << ", but of " << describe(illegal->parallel) << " the passes say: " << illegal->reason;
  return error;
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileOne(const Candidate &candidate, bool findChanges) {
  CompileOptions one = options;
  one.parallel = candidate.parallel;
  one.microBatches = candidate.microBatches;
  one.findChanges = findChanges;
  if (isStopped())
    one.schedule = candidate.schedule;
  else if (options.schedule == "auto")
    one.memoryLimit = limit;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, candidate.parallel.getDp(), candidate.batch, {});
  return failed(graph) ? FailureOr<OwningOpRef<ModuleOp>>(failure()) : compile(**graph, one);
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
    return true;
  });
}

/// The fastest with the schedule that is asked for; null where there is none.
Candidate *ParallelSearch::choose() {
  // A large model is compiled once: its nearest were compared as a whole, in a simple schedule.
  if (options.schedule == "auto" && !isSampled() && !isStopped())
    searchNearest();
  SmallVector<Candidate *> sorted = sort();
  return sorted.empty() ? nullptr : sorted.front();
}

/// How far `best` is from the others that were compared in the same way.
std::optional<Margin> ParallelSearch::getMargin(const Candidate &best) const {
  auto getChoice = [&](const Candidate &one) {
    return Choice{describe(one.parallel), getCost(one), one.whole.uncertainty};
  };
  SmallVector<Choice> others;
  for (const Candidate &one : candidates)
    if (&one != &best && one.verdict == best.verdict)
      others.push_back(getChoice(one));
  return moe::getMargin(getChoice(best), std::move(others));
}

void ParallelSearch::explain(ModuleOp module, const std::optional<Margin> &margin) {
  double rankTokens = static_cast<double>(tokens) / static_cast<double>(request.world);
  for (Candidate &candidate : candidates) {
    candidate.secondsPerSequence = getSecondsPerSequence(candidate);
    if (candidate.secondsPerSequence > 0)
      candidate.tokensPerSecond = rankTokens / candidate.secondsPerSequence;
  }
  setExplanation(module, GroupsExplanation{std::move(candidates), request.objective, !stopped, margin});
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

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::finish() {
  while (Candidate *best = choose()) {
    std::optional<Margin> margin = getMargin(*best);
    FailureOr<OwningOpRef<ModuleOp>> module = compileOne(*best, options.findChanges);
    if (failed(module) || failed(setFigures(*module, *best)))
      return failure();
    if (fits(best->whole.bytes)) {
      explain(**module, margin);
      return module;
    }
    // More micro-batches, and another schedule, took more than the plan that was compared.
    refuseSize(*best, describeMemory(getMemory(getLargestProgram(**module))));
  }
  return failToFind();
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::run() {
  if (failed(addSpace()))
    return failure();
  limit = options.memoryLimit;
  // What a host has is not known here.
  if (limit == 0 && options.cluster->processors.count == 0)
    limit = static_cast<int64_t>(options.cluster->memoryBytes);
  kinds = getKinds(source);
  for (int64_t kind : source.kinds)
    kindOf.push_back(llvm::find(kinds, kind) - kinds.begin());
  if (isSampled()) {
    roughlyEstimateAll();
    estimateNearest();
    compileNearest();
    return finish();
  }
  visitAll("groups", candidates.size(), [&](size_t index) {
    if (candidates[index].verdict != Verdict::Illegal)
      measureWhole(candidates[index]);
  });
  return finish();
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileBestParallel(const ModelSource &source,
                                                                const ParallelRequest &request,
                                                                const CompileOptions &options) {
  return ParallelSearch(source, request, options).run();
}
