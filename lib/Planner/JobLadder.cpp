//===- JobLadder.cpp - what each change of a job gains --------------------===//
#include "moe/Planner/JobLadder.h"

#include "ParallelSearch.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Gains
//===----------------------------------------------------------------------===//

static double countSequences(const Candidate &plan) {
  return static_cast<double>(plan.batch * plan.parallel.getDp() * plan.microBatches);
}

JobGain JobLadder::getGain(const Candidate &plan, int64_t changes) const {
  JobGain gain;
  double seconds = plan.getStepSeconds();
  if (seconds == 0 || job.whole.seconds == 0)
    return gain;
  gain.seconds = seconds * countSequences(job) / countSequences(plan);
  gain.times = job.whole.seconds / gain.seconds;
  if (pairError == 0)
    return gain;
  double factor = std::exp(pairError * std::sqrt(static_cast<double>(changes)));
  gain.low = gain.times / factor;
  gain.high = gain.times * factor;
  gain.isClear = gain.low > 1 || gain.high < 1;
  return gain;
}

void JobLadder::sort() {
  llvm::stable_sort(changes, [&](const JobChange &a, const JobChange &b) {
    return std::pair(!fits(a.plan), a.plan.whole.seconds / countSequences(a.plan)) <
           std::pair(!fits(b.plan), b.plan.whole.seconds / countSequences(b.plan));
  });
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

namespace {
/// A group that is chosen freely: dp follows from the others.
struct FreeGroup {
  StringLiteral name; ///< in Megatron
  int64_t (*getSize)(ParallelAttr);
};
} // namespace

static constexpr FreeGroup kFreeGroups[] = {{"TP", [](ParallelAttr all) { return all.getMp(); }},
                                            {"PP", [](ParallelAttr all) { return all.getPp(); }},
                                            {"EP", [](ParallelAttr all) { return all.getEp(); }},
                                            {"ETP", [](ParallelAttr all) { return all.getEsp(); }},
                                            {"CP", [](ParallelAttr all) { return all.getCp(); }}};

SmallVector<std::string> mlir::moe::listDifferences(const StepChoice &job, const StepChoice &plan) {
  SmallVector<std::string> all;
  for (const FreeGroup &group : kFreeGroups)
    if (int64_t size = group.getSize(plan.parallel); size != group.getSize(job.parallel))
      all.push_back((group.name + Twine(size)).str());
  if (plan.batch != job.batch)
    all.push_back("MBS " + std::to_string(plan.batch));
  if (plan.schedule != job.schedule)
    all.push_back(plan.schedule);
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.words.empty() || plan.*member == job.*member)
      return;
    auto [before, after] = info.words.split("{}");
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>)
      all.push_back((plan.*member ? "" : "no ") + before.str());
    else
      all.push_back((before + getText(plan.*member) + after).str());
  });
  return all;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

namespace {
/// Makes the plans with one change.
class JobChanger {
public:
  JobChanger(ParallelSearch &search, const Candidate &job, const Candidate &best)
      : question(search.question), job(job), best(best) {
    known.insert(describeOptions(job));
  }

  std::vector<Candidate> run();

private:
  void addGroups();
  void addSteps();
  /// Adds the plans with the next smaller and larger of `values` of a choice, and that of the best.
  void addNear(int64_t StepChoice::*member, ArrayRef<int64_t> values);
  template <class Value> void addAll(Value StepChoice::*member, ArrayRef<Value> values);
  /// Adds `plan` with all that its change needs, if it is possible.
  void add(Candidate plan);

  const ParallelQuestion &question;
  const Candidate &job, &best;
  std::vector<Candidate> all;
  std::set<std::string> known;
};
} // namespace

/// Sets the number of micro-batches for the sequences of the job's step. Whether that is possible.
static bool keepSequences(Candidate &plan, const Candidate &job) {
  int64_t sequences = job.batch * job.parallel.getDp() * job.microBatches;
  int64_t each = plan.batch * plan.parallel.getDp();
  plan.microBatches = sequences / each;
  return sequences % each == 0 && plan.microBatches <= kMaxMicroBatches && plan.microBatches % plan.sideBySide == 0;
}

void JobChanger::add(Candidate plan) {
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.hasEffect && !info.hasEffect(plan.parallel))
      plan.*member = StepChoice().*member;
  });
  if (plan.parallel.getPp() == 1)
    plan.interleave = 1;
  if (!keepSequences(plan, job))
    return;
  if (!question.getBrokenRule(plan).empty()) {
    takeNeeded(question, plan);
    plan.schedule = getSchedules(question, plan).front();
  }
  if (!question.getBrokenRule(plan).empty() || !plan.getPipelineShape(question.options.train).check().empty())
    return;
  if (plan.parallel.getEp() != job.parallel.getEp())
    plan.maxLoad = getMaxLoad(question, question.maxLoads, plan.parallel);
  if (plan.parallel != job.parallel || plan.interleave != job.interleave || plan.schedule != job.schedule)
    plan.stageBoundaries.clear();
  plan.whole = plan.estimate = {};
  plan.verdict = Verdict::Skipped;
  if (known.insert(describeOptions(plan)).second)
    all.push_back(std::move(plan));
}

/// The nearest values on both sides of `own`, and that of the best.
static SmallVector<int64_t> getNear(ArrayRef<int64_t> values, int64_t own, int64_t best) {
  std::optional<int64_t> below, above;
  for (int64_t value : values) {
    if (value < own)
      below = std::max(below.value_or(value), value);
    if (value > own)
      above = std::min(above.value_or(value), value);
  }
  SmallVector<int64_t> near = {best};
  for (std::optional<int64_t> value : {below, above})
    if (value && *value != best)
      near.push_back(*value);
  return near;
}

void JobChanger::addGroups() {
  auto differsIn = [&](ParallelAttr groups, const FreeGroup &group) {
    return group.getSize(groups) != group.getSize(job.parallel);
  };
  for (const FreeGroup &group : kFreeGroups) {
    SmallVector<ParallelAttr> alone;
    SmallVector<int64_t> sizes;
    for (ParallelAttr groups : question.groups)
      if (llvm::count_if(kFreeGroups, [&](const FreeGroup &one) { return differsIn(groups, one); }) == 1 &&
          differsIn(groups, group)) {
        alone.push_back(groups);
        sizes.push_back(group.getSize(groups));
      }
    SmallVector<int64_t> near = getNear(sizes, group.getSize(job.parallel), group.getSize(best.parallel));
    for (ParallelAttr groups : alone)
      if (llvm::is_contained(near, group.getSize(groups))) {
        Candidate plan = job;
        plan.parallel = groups;
        add(plan);
      }
  }
}

template <class Value> void JobChanger::addAll(Value StepChoice::*member, ArrayRef<Value> values) {
  for (const Value &value : values) {
    Candidate plan = job;
    plan.*member = value;
    add(plan);
  }
}

void JobChanger::addNear(int64_t StepChoice::*member, ArrayRef<int64_t> values) {
  addAll<int64_t>(member, getNear(values, job.*member, best.*member));
}

void JobChanger::addSteps() {
  const StepSpace &space = question.request.space;
  addNear(&StepChoice::batch, space.batches);
  if (job.parallel.getPp() > 1)
    addNear(&StepChoice::interleave, space.interleaves);
  addNear(&StepChoice::zero, space.zeros);
  addAll<PipelineOrder>(&StepChoice::pipelineOrder, space.pipelineOrders);
  addAll<Recompute>(&StepChoice::recompute, space.recomputes);
  for (bool StepChoice::*flag : space.flags)
    addAll<bool>(flag, {!(job.*flag)});
  addAll<std::string>(&StepChoice::schedule, {best.schedule});
}

std::vector<Candidate> JobChanger::run() {
  addSteps();
  addGroups();
  return std::move(all);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Compiles and simulates the plan. Stages without boundaries begin where samples say.
static void measure(ParallelSearch &search, Candidate &plan) {
  const ParallelQuestion &question = search.question;
  plan.reason.clear();
  if (plan.parallel.getPp() > 1 && plan.stageBoundaries.empty() && search.estimator) {
    std::string ignored;
    if (std::optional<PipelineEstimate> step = search.estimator->estimate(plan, ignored))
      plan.stageBoundaries = step->stageBoundaries;
  }
  measureCandidates(question.source, question.options, plan);
}

std::optional<Candidate> mlir::moe::measureJob(const ModelSource &source, const ParallelRequest &request,
                                               const PlanOptions &options) {
  FailureOr<ParallelQuestion> question = readQuestion(source, request, options);
  if (failed(question))
    return std::nullopt;
  ParallelSearch search(*question);
  Candidate job = *request.job;
  if (!job.maxLoad)
    job.maxLoad = getMaxLoad(*question, question->maxLoads, job.parallel);
  std::vector<Candidate> plans = {job};
  if (!question->getBrokenRule(job).empty()) {
    plans.clear();
    for (const std::string &schedule : getSchedules(*question, job)) {
      plans.push_back(job);
      plans.back().schedule = schedule;
      plans.back().stageBoundaries.clear();
    }
    llvm::erase_if(plans, [&](const Candidate &plan) { return !question->getBrokenRule(plan).empty(); });
  }
  search.visitAll("the job", plans.size(), [&](size_t index) { measure(search, plans[index]); });
  const auto *best = std::min_element(plans.data(), plans.data() + plans.size(), [&](const auto &a, const auto &b) {
    auto rank = [&](const Candidate &plan) {
      return std::pair(plan.whole.seconds == 0, question->getRank(plan.whole));
    };
    return rank(a) < rank(b);
  });
  if (plans.empty())
    return std::nullopt;
  return *best;
}

std::vector<JobChange> mlir::moe::measureJobChanges(const ModelSource &source, const ParallelRequest &request,
                                                    const PlanOptions &options, const Candidate &job,
                                                    const Candidate &best) {
  FailureOr<ParallelQuestion> question = readQuestion(source, request, options);
  if (failed(question))
    return {};
  ParallelSearch search(*question);
  std::vector<Candidate> plans = JobChanger(search, job, best).run();
  search.visitAll("changes of the job", plans.size(), [&](size_t index) { measure(search, plans[index]); });
  std::vector<JobChange> changes;
  for (const Candidate &plan : plans)
    if (plan.whole.seconds > 0)
      changes.push_back({llvm::join(listDifferences(job, plan), ", "), plan});
  return changes;
}
