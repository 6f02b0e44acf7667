//===- AutoParallel.cpp - the best groups for a model on a cluster --------===//
#include "ParallelSearch.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Support/Text.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// The candidates of a search, and what was found out about all of them.
struct Contest {
  std::vector<Candidate> candidates;
  /// Bounds of dropless rows that are still open.
  ArrayRef<double> maxLoads;
  /// The largest bound with which nothing fits.
  std::optional<double> refusedLoad;
  std::optional<Margin> margin; ///< distance of the choice from the others
  std::optional<Candidate> job; ///< the job of the request, compiled
};
} // namespace

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// Takes the best by rough estimates, if the search was stopped before any closer one.
static void takeRoughly(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  const ParallelQuestion &question = search.question;
  if (!search.isStopped() || !sortBest(question, candidates).empty())
    return;
  Candidate *best = nullptr;
  for (Candidate &one : candidates)
    if (one.verdict == Verdict::Slower && (!best || question.getCost(one) < question.getCost(*best)))
      best = &one;
  if (best)
    refuse(*best, Verdict::Estimated, "");
}

static void compareCandidates(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  if (!search.question.isSampled())
    return compileAll(search, candidates);
  estimateCandidates(search, candidates);
  compileNearest(search, candidates);
  takeRoughly(search, candidates);
}

/// Compiles the job of the request, and adds it to the candidates if it may be chosen and none of them is the same.
static void addJob(ParallelSearch &search, Contest &contest) {
  const ParallelQuestion &question = search.question;
  if (!question.request.job)
    return;
  contest.job = question.request.job;
  contest.job->reason = "the search was stopped";
  search.visitAll("the job", 1, [&](size_t) {
    contest.job->maxLoad = getMaxLoad(question, contest.maxLoads, contest.job->parallel);
    measureCandidates(question.source, question.options, *contest.job);
    contest.job->estimate = contest.job->whole;
  });
  bool isCompiled = contest.job->verdict == Verdict::Compiled;
  if (!isCompiled || !question.fits(contest.job->whole.bytes) || !isOpenTo(question, *contest.job) ||
      llvm::any_of(contest.candidates, [&](const Candidate &one) {
        return one.verdict == Verdict::Compiled && describeOptions(one) == describeOptions(*contest.job);
      }))
    return;
  contest.candidates.push_back(*contest.job);
  search.noteBest(*contest.job);
}

/// Makes the candidates with one of the bounds `maxLoads`, and compares them.
static void enter(ParallelSearch &search, Contest &contest) {
  contest.candidates = makeCandidates(search.question, contest.maxLoads);
  compareCandidates(search, contest.candidates);
  addJob(search, contest);
}

/// Compiles the nearest candidates, each in the best of all schedules.
static void searchSchedules(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  constexpr size_t compared = 3;
  const ParallelQuestion &question = search.question;
  search.visitBest("groups with their best schedules", sortBest(question, candidates), compared, [&](Candidate &one) {
    if (one.verdict == Verdict::Compiled)
      return true;
    PlanOptions options = question.getOptions(one);
    options.schedule = question.options.schedule;
    options.memoryLimit = question.limit;
    options.showProgress = nullptr;
    std::string reason;
    std::optional<WholeModel> whole = measureModel(question.getReader(one), options, reason);
    // A search that was stopped says nothing against the candidate.
    if (!whole && !search.isStopped())
      refuse(one, Verdict::Illegal, reason);
    if (!whole)
      return false;
    // If the best schedule needs too much, the simple one is taken, in which the candidate was measured before.
    if (question.fits(whole->step.bytes) || !question.fits(one.whole.bytes)) {
      one.whole = whole->step;
      one.schedule = whole->schedule;
    }
    if (!question.fits(one.whole.bytes)) {
      refuseSize(question, one, describeMemory(whole->memory));
      return false;
    }
    one.verdict = Verdict::Compiled;
    search.noteBest(one);
    return true;
  });
}

/// How far `best` is from the others. An estimate is as uncertain as estimates are.
static std::optional<Margin> findMargin(const ParallelQuestion &question, ArrayRef<Candidate> candidates,
                                        const Candidate &best) {
  auto isCompared = [](const Candidate &one) {
    return one.verdict == Verdict::Estimated || one.verdict == Verdict::Compiled;
  };
  return getMargin(best, candidates, isCompared, [&](const Candidate &one) {
    Choice choice{describe(one), question.getCost(one), {}, question.options.cluster->measured.pairError};
    if (one.whole.seconds > 0)
      choice.errors.add(one.whole.errors, choice.seconds / one.whole.seconds);
    else if (question.isSampled())
      choice.estimateError = kEstimateError;
    return choice;
  });
}

/// The fastest with the schedule that is asked for; null if there is none.
static Candidate *choose(ParallelSearch &search, Contest &contest) {
  // A large model is compiled once: its nearest were compared as a whole, in a simple schedule.
  if (search.question.options.schedule == "auto" && !search.question.isSampled() && !search.isStopped())
    searchSchedules(search, contest.candidates);
  SmallVector<Candidate *> sorted = sortBest(search.question, contest.candidates);
  if (sorted.empty())
    return nullptr;
  contest.margin = findMargin(search.question, contest.candidates, *sorted.front());
  return sorted.front();
}

static void failToFind(ParallelSearch &search, ArrayRef<Candidate> candidates) {
  const ParallelQuestion &question = search.question;
  NothingFound nothing{"groups of " + std::to_string(question.request.world) + " ranks",
                       search.wasStopped(),
                       formatByteSize(question.limit),
                       candidates.size(),
                       describe,
                       /*showsBytes=*/false};
  InFlightDiagnostic error = emitNothingFound(question.context, candidates, nothing);
  const Candidate *smallest = findSmallest(candidates);
  if (search.wasStopped() || !smallest || !question.request.describeRemedies)
    return;
  std::string remedies = question.request.describeRemedies(*smallest, question.getOptions(*smallest),
                                                           smallest->whole.bytes, question.limit);
  if (!remedies.empty())
    error.attachNote() << remedies;
}

/// The best of `contest`, if need be after a search with less room for dropless rows. Null after an error.
static Candidate *chooseWithRoom(ParallelSearch &search, Contest &contest) {
  Candidate *best = choose(search, contest);
  for (; !best && !contest.maxLoads.empty() && !search.isStopped(); best = choose(search, contest)) {
    contest.refusedLoad = llvm::max_element(contest.candidates, [](const Candidate &a, const Candidate &b) {
                            return *a.maxLoad < *b.maxLoad;
                          })->maxLoad;
    contest.maxLoads = contest.maxLoads.drop_while([&](double load) { return load >= *contest.refusedLoad; });
    if (contest.maxLoads.empty())
      break;
    enter(search, contest);
  }
  if (!best)
    failToFind(search, contest.candidates);
  return best;
}

/// Searches the space once.
static Contest startContest(ParallelSearch &search) {
  Contest contest;
  contest.maxLoads = search.question.maxLoads;
  enter(search, contest);
  return contest;
}

/// Takes `best`, one of the candidates of `contest`.
static GroupsExplanation explain(ParallelSearch &search, Contest contest, Candidate &best) {
  const ParallelQuestion &question = search.question;
  GroupsExplanation explanation;
  explanation.candidates = std::move(contest.candidates);
  explanation.objective = question.request.objective;
  explanation.margin = contest.margin;
  explanation.refusedLoad = contest.refusedLoad;
  explanation.job = std::move(contest.job);
  explainRoom(search, best, contest.maxLoads, explanation);
  explainOverlap(search, best, explanation);
  best.verdict = Verdict::Chosen;
  explanation.isComplete = !search.wasStopped();
  // A token takes as many FLOPs however a model is divided.
  double share = static_cast<double>(question.tokens) / static_cast<double>(question.request.world);
  StepWork work = best.whole.work * (best.whole.work.tokens > 0 ? share / best.whole.work.tokens : 0);
  for (Candidate &candidate : explanation.candidates) {
    candidate.secondsPerSequence = question.getSecondsPerSequence(candidate);
    candidate.speed = getSpeed(work, candidate.secondsPerSequence, best.whole.peakFlops);
  }
  return explanation;
}

//===----------------------------------------------------------------------===//
// A plan of the best
//===----------------------------------------------------------------------===//

/// Compiles `candidate` in the schedule and to the stage that are asked for.
static FailureOr<OwningOpRef<ModuleOp>> compileOne(ParallelSearch &search, const Candidate &candidate) {
  const ParallelQuestion &question = search.question;
  PlanOptions one = question.options;
  static_cast<StepChoice &>(one) = candidate;
  if (!search.isStopped())
    one.schedule = question.options.schedule;
  if (question.options.schedule == "auto" && !search.isStopped())
    one.memoryLimit = question.limit;
  FailureOr<OwningOpRef<ModuleOp>> graph =
      question.source.read(*question.context, ParallelQuestion::getForm(candidate));
  return failed(graph) ? FailureOr<OwningOpRef<ModuleOp>>(failure()) : planAndCompile(**graph, one);
}

/// Gives `best` the figures of its plan, which is taken.
static LogicalResult setFigures(const ParallelQuestion &question, OwningOpRef<ModuleOp> &plan, Candidate &best) {
  llvm::Expected<StepFigures> step = simulatePlan(plan, question.getOptions(best));
  if (!step)
    return emitError(UnknownLoc::get(question.context)) << llvm::toString(step.takeError());
  best.whole = std::move(*step);
  if (auto schedule = (*plan)->getAttrOfType<StringAttr>(plan::kScheduleAttrName))
    best.schedule = schedule.str();
  return success();
}

FailureOr<GroupsExplanation> mlir::moe::chooseParallel(const ModelSource &source, const ParallelRequest &request,
                                                       const PlanOptions &options) {
  FailureOr<ParallelQuestion> question = readQuestion(source, request, options);
  if (failed(question))
    return failure();
  ParallelSearch search(*question);
  Contest contest = startContest(search);
  Candidate *best = chooseWithRoom(search, contest);
  if (!best)
    return failure();
  return explain(search, std::move(contest), *best);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::moe::compileBestParallel(const ModelSource &source, const ParallelRequest &request, const PlanOptions &options) {
  FailureOr<ParallelQuestion> question = readQuestion(source, request, options);
  if (failed(question))
    return failure();
  ParallelSearch search(*question);
  Contest contest = startContest(search);
  while (Candidate *best = chooseWithRoom(search, contest)) {
    FailureOr<OwningOpRef<ModuleOp>> module = compileOne(search, *best);
    if (failed(module) || failed(setFigures(*question, *module, *best)))
      return failure();
    if (question->fits(best->whole.bytes)) {
      setExplanation(**module, explain(search, std::move(contest), *best));
      return module;
    }
    // More micro-batches, and another schedule, took more than the plan that was compared.
    refuseSize(*question, *best, describeMemory(getMemory(getLargestProgram(**module))));
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Steps of given candidates
//===----------------------------------------------------------------------===//

std::optional<SmallVector<int64_t>> mlir::moe::getBlockParts(const ModelSource &source, const PlanOptions &options,
                                                             const Candidate &candidate, std::string &reason) {
  if (source.kinds.empty()) {
    reason = "the blocks of the model are not known";
    return std::nullopt;
  }
  StepEstimator estimator(source, options, candidate.parallel.getWorld());
  std::optional<BlockParts> parts = estimator.countParts(candidate, reason);
  if (!parts)
    return std::nullopt;
  SmallVector<int64_t> first = {parts->begin};
  for (int64_t count : parts->blocks)
    first.push_back(first.back() + count);
  first.push_back(first.back() + parts->end);
  return first;
}

bool mlir::moe::isSampled(const PlanOptions &options) {
  bool isOrdered = options.pipelineOrder == PipelineOrder::OneForwardOneBackward ||
                   options.pipelineOrder == PipelineOrder::Overlapped1F1B;
  return options.schedule != "auto" && isOrdered && options.sideBySide == 1 && options.memoryLimit == 0;
}

std::optional<SampledStep> mlir::moe::sampleStep(const ModelSource &source, const PlanOptions &options,
                                                 const Candidate &candidate, std::string &reason) {
  StepEstimator estimator(source, options, candidate.parallel.getWorld(), SampleSize::Large);
  std::optional<PipelineEstimate> step = estimator.estimate(candidate, reason);
  if (!step)
    return std::nullopt;
  return SampledStep{candidate.parallel.getWorld(), step->seconds, step->bytes, step->measured};
}

SmallVector<int64_t> mlir::moe::getStageBoundaries(ArrayRef<int64_t> blockParts, ArrayRef<int64_t> firstBlocks) {
  SmallVector<int64_t> boundaries = {0};
  for (int64_t block : firstBlocks.drop_front())
    boundaries.push_back(blockParts[block]);
  boundaries.push_back(blockParts.back());
  if (!std::is_sorted(boundaries.begin(), boundaries.end(), std::less_equal<>()))
    return {};
  return boundaries;
}

void mlir::moe::measureCandidates(const ModelSource &source, const PlanOptions &options,
                                  MutableArrayRef<Candidate> candidates) {
  if (candidates.empty())
    return;
  forAll(options.parallel.getContext(), candidates.size(), [&](size_t index) {
    Candidate &one = candidates[index];
    one.reason.clear();
    std::optional<WholeModel> whole = measureFilledModel(readBlocks(source, ParallelQuestion::getForm(one)),
                                                         getChoiceOptions(one, options), /*limit=*/0, one.reason);
    one.verdict = whole ? Verdict::Compiled : Verdict::Illegal;
    one.whole = whole ? whole->step : StepFigures();
  });
}
