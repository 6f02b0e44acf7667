//===- FrameworkSearch.cpp - parts of a framework as planned choices ------===//
//
// Dispatchers and CUDA graphs change the times of launches, so that each needs a search of its own. All but the first
// search compare only the groups that were near the best before.
//
//===----------------------------------------------------------------------===//
#include "CompileCommandLine.h"

#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

/// Seconds by which a search compares its choice.
static double getCost(const GroupsExplanation &groups) {
  const Candidate &chosen = *groups.getChosen();
  return groups.objective == Objective::StepTime ? chosen.getStepSeconds() : chosen.secondsPerSequence;
}

/// The groups that may be the best with another part of the framework.
static std::vector<ParallelAttr> getNearGroups(const GroupsExplanation &groups) {
  constexpr double near = 1.5;
  std::vector<ParallelAttr> all;
  for (const Candidate &one : groups.candidates)
    if (one.verdict == Verdict::Illegal || one.secondsPerSequence <= near * groups.getChosen()->secondsPerSequence)
      all.push_back(one.parallel);
  return all;
}

static bool isSame(const FrameworkUse &a, const FrameworkUse &b) {
  return a.dispatcher == b.dispatcher && a.graph == b.graph;
}

LogicalResult CompileCommandLine::setUse(MLIRContext &context, FrameworkTrial &trial, PlanOptions &options) {
  dispatcher = trial.use.dispatcher;
  cudaGraph = trial.use.graph;
  FailureOr<ClusterProfile> cluster = loadCluster(context);
  if (failed(cluster))
    return failure();
  trial.cluster = std::move(*cluster);
  trial.rules = rules;
  options.cluster = &trial.cluster;
  options.rules = &trial.rules;
  return success();
}

FrameworkUse CompileCommandLine::getJobUse() const {
  FrameworkUse use = job ? job->use : FrameworkUse();
  const std::string first = description->dispatchers.empty() ? "" : description->dispatchers.front().name;
  if (use.dispatcher.empty())
    use.dispatcher = first;
  return description->has(use) ? use : FrameworkUse{first, ""};
}

void CompileCommandLine::tryUse(MLIRContext &context, ParallelSearchInput &search, const FrameworkUse &use) {
  FrameworkTrial &trial = trials.emplace_back();
  trial.use = use;
  if (failed(setUse(context, trial, search.options)))
    return;
  // An error only says that this part of the framework runs no plan.
  ScopedDiagnosticHandler keepError(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    trial.error = diagnostic.str();
    return success();
  });
  ParallelRequest request = search.request;
  request.space = restrictSpace(search.options, request.space);
  // A step of the job has its own parts.
  if (!isSame(use, getJobUse()))
    request.job.reset();
  FailureOr<GroupsExplanation> groups = moe::chooseParallel(search.source, request, search.options);
  if (succeeded(groups))
    trial.groups = std::move(*groups);
}

/// The first trial that none after it beats by a hundredth; null if none has a plan.
static FrameworkTrial *findBest(std::deque<FrameworkTrial> &trials) {
  constexpr double leastGain = 1.01;
  FrameworkTrial *best = nullptr;
  for (FrameworkTrial &one : trials)
    if (one.groups && (!best || leastGain * getCost(*one.groups) < getCost(*best->groups)))
      best = &one;
  return best;
}

FailureOr<GroupsExplanation> CompileCommandLine::chooseParallel(MLIRContext &context, ParallelSearchInput &search) {
  // The steps of --measured have one dispatcher, the one that is given or the first.
  if (!description || isGiven("measured"))
    return moe::chooseParallel(search.source, search.request, search.options);
  trials.clear();
  const std::string givenDispatcher = dispatcher, givenGraph = cudaGraph;
  std::vector<std::string> dispatchers = {givenDispatcher}, graphs;
  if (!isGiven("dispatcher"))
    dispatchers = description->getPlannedDispatchers(*search.options.cluster);
  if (!isGiven("cuda-graph"))
    graphs = description->getPlannedGraphs();
  auto tryNext = [&](const FrameworkUse &use) {
    FrameworkTrial *best = findBest(trials);
    if (best && search.options.isStoppedEarly())
      return;
    if (best && search.request.groups.empty())
      search.request.groups = getNearGroups(*best->groups);
    if (best)
      search.options.secondsToBeat = getCost(*best->groups);
    tryUse(context, search, use);
  };
  for (const std::string &one : dispatchers)
    tryNext({one, givenGraph, ""});
  if (FrameworkTrial *best = findBest(trials)) {
    const std::string fastest = best->use.dispatcher;
    for (const std::string &graph : graphs)
      tryNext({fastest, graph, ""});
  }
  // The choice is not slower than the job if options allow the job's parts.
  bool isJobOpen = job && (!isGiven("dispatcher") || givenDispatcher == getJobUse().dispatcher) &&
                   (!isGiven("cuda-graph") || givenGraph == getJobUse().graph);
  if (isJobOpen && llvm::none_of(trials, [&](const FrameworkTrial &one) { return isSame(one.use, getJobUse()); }))
    tryNext(getJobUse());
  FrameworkTrial *best = findBest(trials);
  if (!best)
    return emitError(UnknownLoc::get(&context)) << trials.front().error;
  dispatcher = best->use.dispatcher;
  cudaGraph = best->use.graph;
  search.options.cluster = &best->cluster;
  search.options.rules = &best->rules;
  return *best->groups;
}

std::vector<std::pair<std::string, double>> CompileCommandLine::getTrials() const {
  std::vector<std::pair<std::string, double>> all;
  for (const FrameworkTrial &one : trials)
    all.emplace_back(one.use.describe(), one.groups ? one.groups->getChosen()->getStepSeconds() : 0);
  return all;
}

std::optional<RoutedMemory> CompileCommandLine::getRoutedMemory(const ParallelSearchInput &search,
                                                                const Candidate &plan) const {
  if (!description || !description->keepsRoutedRows)
    return std::nullopt;
  return moe::getRoutedMemory(search.source, search.options, plan);
}
