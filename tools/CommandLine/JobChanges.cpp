//===- JobChanges.cpp - a job and each change of it -----------------------===//
//
// Dispatchers and CUDA graphs are changes of a job as its groups and its options are.
//
//===----------------------------------------------------------------------===//
#include "CompileCommandLine.h"

using namespace mlir;
using namespace mlir::moe;

std::vector<std::pair<std::string, FrameworkUse>> CompileCommandLine::listUses(const ClusterProfile &profile) const {
  std::vector<std::pair<std::string, FrameworkUse>> uses;
  const FrameworkUse own = getJobUse();
  std::vector<std::string> dispatchers = description->getPlannedDispatchers(profile);
  if (isGiven("dispatcher"))
    dispatchers = {dispatcher};
  for (const std::string &one : dispatchers)
    if (one != own.dispatcher)
      uses.push_back({"dispatcher " + one, {one, own.graph, ""}});
  std::vector<std::string> graphs = description->getPlannedGraphs();
  graphs.insert(graphs.begin(), "");
  if (isGiven("cuda-graph"))
    graphs = {cudaGraph};
  for (const std::string &one : graphs)
    if (one != own.graph)
      uses.push_back({one.empty() ? "no CUDA graphs" : "CUDA graphs of " + one, {own.dispatcher, one, ""}});
  return uses;
}

void CompileCommandLine::addUses(MLIRContext &context, const ParallelSearchInput &search, JobLadder &ladder) {
  for (const auto &[name, use] : listUses(*search.options.cluster)) {
    FrameworkTrial trial{use, {}, {}, {}, {}};
    PlanOptions options = search.options;
    if (search.options.isStoppedEarly() || failed(setUse(context, trial, options)))
      continue;
    ParallelRequest request = search.request;
    request.job = ladder.job;
    if (std::optional<Candidate> plan = measureJob(search.source, request, options); plan && plan->whole.seconds > 0)
      ladder.changes.push_back({name, *plan});
  }
}

Candidate CompileCommandLine::findJob(const ParallelSearchInput &search, const GroupsExplanation &groups) const {
  // A search with the job's parts has measured it.
  const std::optional<Candidate> *known = trials.empty() ? &groups.job : nullptr;
  for (const FrameworkTrial &one : trials)
    if (one.groups && one.groups->job)
      known = &one.groups->job;
  if (known && *known && (*known)->whole.seconds > 0)
    return **known;
  if (std::optional<Candidate> measured = measureJob(search.source, search.request, search.options))
    return *measured;
  Candidate unknown = *search.request.job;
  unknown.reason = "the framework does not run it";
  return unknown;
}

JobLadder CompileCommandLine::compareJob(MLIRContext &context, ParallelSearchInput search,
                                         const GroupsExplanation &groups, double memoryLimit) {
  JobLadder ladder;
  ladder.memoryLimit = memoryLimit;
  const Candidate &best = *groups.getChosen();
  const FrameworkUse chosen = getUse();
  bool hasParts = description && !isGiven("measured");
  FrameworkTrial own;
  search.request.groups.clear();
  if (hasParts) {
    own.use = getJobUse();
    if (!description->has(job->use))
      emitWarning(UnknownLoc::get(&context)) << "framework '" << description->name << "' has no " << job->use.describe()
                                             << "; the job is compared with " << own.use.describe();
    (void)setUse(context, own, search.options);
  }
  ladder.job = findJob(search, groups);
  ladder.pairError = search.options.cluster->measured.pairError;
  ladder.best = best;
  if (ladder.job.whole.seconds > 0) {
    search.request.space = restrictSpace(search.options, search.request.space);
    ladder.changes = measureJobChanges(search.source, search.request, search.options, ladder.job, best);
    if (hasParts)
      addUses(context, search, ladder);
    ladder.sort();
  }
  ladder.bestChanges = static_cast<int64_t>(listDifferences(ladder.job, best).size());
  if (hasParts)
    ladder.bestChanges += (own.use.dispatcher != chosen.dispatcher) + (own.use.graph != chosen.graph);
  dispatcher = chosen.dispatcher;
  cudaGraph = chosen.graph;
  return ladder;
}
