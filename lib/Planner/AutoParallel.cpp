//===- AutoParallel.cpp - the best groups for a model on a cluster --------===//
#include "moe/Planner/AutoParallel.h"

#include "ParallelSearch.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Support/ByteSize.h"

using namespace mlir;
using namespace mlir::moe;

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

//===----------------------------------------------------------------------===//
// Graphs that are small enough to be compiled in all groups
//===----------------------------------------------------------------------===//

std::string mlir::moe::describeMemory(const ProgramMemory &memory) {
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
    std::optional<WholeModel> whole = measureModel(getReader(candidate), getOptions(candidate), reason);
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
    error << "but the search was interrupted before it compared any" << (smallest ? " that fit" : "");
  else if (smallest)
    error << "with a plan of at most " << formatByteSize(limit) << " per rank, but the smallest of "
          << candidates.size() << " candidates needs more, that of " << describe(*smallest) << ": " << smallest->reason;
  else
    error << "that are possible" << (illegal ? ", but " + describe(*illegal) + " is not: " + illegal->reason : "");
  if (stopped || !smallest || !request.describeRemedies)
    return;
  std::string remedies = request.describeRemedies(*smallest, getOptions(*smallest), smallest->whole.bytes, limit);
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
    PlanOptions one = getOptions(candidate);
    one.schedule = options.schedule;
    one.memoryLimit = limit;
    one.showProgress = nullptr;
    std::string reason;
    std::optional<WholeModel> whole = measureModel(getReader(candidate), one, reason);
    // A search that was stopped has nothing to say against the candidate.
    if (!whole && !isStopped())
      refuse(candidate, Verdict::Illegal, reason);
    if (!whole)
      return false;
    // Where the best schedule needs too much, the simple one has to do, in which the candidate was measured before.
    if (fits(whole->step.bytes) || !fits(candidate.whole.bytes)) {
      candidate.whole = whole->step;
      candidate.schedule = whole->schedule;
    }
    if (!fits(candidate.whole.bytes)) {
      refuseSize(candidate, describeMemory(whole->memory));
      return false;
    }
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
    Choice choice{describe(one), getCost(one), {}};
    if (one.whole.seconds > 0)
      choice.errors.add(one.whole.errors, choice.seconds / one.whole.seconds);
    else if (isSampled())
      choice.estimateError = kEstimateError;
    return choice;
  };
  SmallVector<Choice> others;
  for (const Candidate &one : candidates)
    if (&one != &best && (one.verdict == Verdict::Estimated || one.verdict == Verdict::Compiled))
      others.push_back(getChoice(one));
  return moe::getMargin(getChoice(best), std::move(others));
}

void ParallelSearch::take(Candidate &best) {
  weighRoom(best);
  weighOverlap(best);
  best.verdict = Verdict::Chosen;
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
  return {std::move(candidates), request.objective,       !stopped,           margin, furtherPasses, refusedLoad,
          largestLoad,           std::move(withLessRoom), timesWithoutOverlap};
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

void ParallelSearch::searchSpace() {
  if (!isSampled()) {
    visitAll("groups", candidates.size(), [&](size_t index) {
      if (candidates[index].verdict != Verdict::Illegal)
        measureWhole(candidates[index]);
    });
    return;
  }
  roughlyEstimateAll();
  estimateNearest();
  compileNearest();
  compileFuller();
  takeRoughly();
}

Candidate *ParallelSearch::run() {
  if (failed(addSpace()))
    return nullptr;
  limit = options.memoryLimit;
  // What a host has is not known here.
  if (limit == 0 && options.cluster->processors.count == 0)
    limit = static_cast<int64_t>(options.cluster->getPlanBytes());
  if (isSampled())
    estimator.emplace(source, options, request.world);
  searchSpace();
  return chooseWithRoom();
}

static bool hasLessRoom(const Candidate &a, const Candidate &b) { return *a.maxLoad < *b.maxLoad; }

Candidate *ParallelSearch::chooseWithRoom() {
  Candidate *best = choose();
  for (; !best && !maxLoads.empty() && !isStopped(); best = choose()) {
    refusedLoad = llvm::max_element(candidates, hasLessRoom)->maxLoad;
    maxLoads = maxLoads.drop_while([&](double load) { return load >= *refusedLoad; });
    if (maxLoads.empty())
      break;
    std::vector<Candidate> larger = std::exchange(candidates, {});
    for (const Candidate &one : larger)
      addCandidate(one.parallel);
    searchSpace();
  }
  if (!best)
    failToFind();
  return best;
}

//===----------------------------------------------------------------------===//
// A plan of the best
//===----------------------------------------------------------------------===//

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileOne(const Candidate &candidate, bool findChanges) {
  PlanOptions one = getOptions(candidate);
  one.stage = options.stage;
  one.reference = options.reference;
  one.memoryLimit = options.memoryLimit;
  one.findChanges = findChanges;
  if (!isStopped())
    one.schedule = options.schedule;
  if (options.schedule == "auto" && !isStopped())
    one.memoryLimit = limit;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, getForm(candidate), {});
  return failed(graph) ? FailureOr<OwningOpRef<ModuleOp>>(failure()) : planAndCompile(**graph, one);
}

/// Of the plan that is taken.
LogicalResult ParallelSearch::setFigures(OwningOpRef<ModuleOp> &module, Candidate &best) const {
  llvm::Expected<StepFigures> step = simulatePlan(module, getOptions(best));
  if (!step)
    return emitUsageError(context) << llvm::toString(step.takeError());
  best.whole = std::move(*step);
  if (auto schedule = (*module)->getAttrOfType<StringAttr>(plan::kScheduleAttrName))
    best.schedule = schedule.str();
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileBest() {
  for (Candidate *best = run(); best; best = chooseWithRoom()) {
    FailureOr<OwningOpRef<ModuleOp>> module = compileOne(*best, options.findChanges);
    if (failed(module) || failed(setFigures(*module, *best)))
      return failure();
    if (fits(best->whole.bytes)) {
      take(*best);
      setExplanation(**module, explain());
      return module;
    }
    // More micro-batches, and another schedule, took more than the plan that was compared.
    refuseSize(*best, describeMemory(getMemory(getLargestProgram(**module))));
  }
  return failure();
}

FailureOr<GroupsExplanation> mlir::moe::chooseParallel(const ModelSource &source, const ParallelRequest &request,
                                                       const PlanOptions &options) {
  ParallelSearch search(source, request, options);
  Candidate *best = search.run();
  if (!best)
    return failure();
  search.take(*best);
  return search.explain();
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::moe::compileBestParallel(const ModelSource &source, const ParallelRequest &request, const PlanOptions &options) {
  return ParallelSearch(source, request, options).compileBest();
}
