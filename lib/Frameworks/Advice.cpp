//===- Advice.cpp - a plan in the frameworks that people use --------------===//
#include "moe/Frameworks/Advice.h"

#include "Adapt.h"
#include "Torchtitan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Cost/ClusterProfile.h"

using namespace mlir;
using namespace mlir::moe;

const FrameworkNames &mlir::moe::getNames(Framework framework) {
  using Version = llvm::VersionTuple;
  static const FrameworkNames names[] = {
      {"megatron", "Megatron-LM", "core_v", {Version(0, 19), Version(0, 16), Version(0, 15)}},
      {"megatron-bridge", "Megatron-Bridge", "v", {Version(0, 6), Version(0, 2)}},
      {"torchtitan", "torchtitan", "v", {Version(0, 3), Version(0, 2)}}};
  return names[static_cast<size_t>(framework)];
}

SmallVector<FrameworkTarget> mlir::moe::getDefaultTargets() {
  return llvm::map_to_vector<4>(ArrayRef{Framework::Megatron, Framework::MegatronBridge, Framework::Torchtitan},
                                FrameworkTarget::getDefault);
}

//===----------------------------------------------------------------------===//
// Stages of whole blocks
//===----------------------------------------------------------------------===//

/// First block of each stage, as near to `boundaries` as possible. Each stage has a block. Null if there are fewer
/// blocks than stages.
static std::optional<SmallVector<int64_t>> roundToBlocks(ArrayRef<int64_t> boundaries, ArrayRef<int64_t> blockParts) {
  auto blocks = static_cast<int64_t>(blockParts.size()) - 2;
  auto stages = static_cast<int64_t>(boundaries.size()) - 1;
  if (blocks < stages)
    return std::nullopt;
  SmallVector<int64_t> first = {0};
  for (int64_t stage = 1; stage < stages; ++stage) {
    int64_t low = first.back() + 1, high = blocks - (stages - stage), best = low;
    for (int64_t block = low; block <= high; ++block)
      if (std::abs(blockParts[block] - boundaries[stage]) < std::abs(blockParts[best] - boundaries[stage]))
        best = block;
    first.push_back(best);
  }
  return first;
}

/// Clears the stage boundaries if the schedule or the interleaving differs. They count parts, which depend on both.
static void forgetOldStages(Candidate &plan, const Candidate &before) {
  if (plan.interleave != before.interleave || plan.schedule != before.schedule)
    plan.stageBoundaries.clear();
}

namespace {
/// Measures how much slower a plan is without the features that a framework lacks.
class Adviser {
public:
  Adviser(const FrameworkTarget &target, const PlannedJob &job, const ModelSource &source, const PlanOptions &options)
      : job(job), source(source), options(options) {
    advice.target = target;
  }

  /// Takes what is measured from `similar`, whose framework can run the same plans, unless it is null.
  Advice run(const Advice *similar);

private:
  void adapt();
  void findGaps();
  /// Moves the stage boundaries of `plan` to the nearest block boundaries, or divides blocks evenly. Returns the number
  /// of blocks of each stage; none without a pipeline.
  SmallVector<int64_t> cutAtBlocks(Candidate &plan, bool isEven) const;
  void measure(std::vector<Adaptation> adaptations);
  int64_t getLimit() const;
  bool isBetter(const Candidate &one, const Candidate &other) const;

  const PlannedJob &job;
  const ModelSource &source;
  const PlanOptions &options;
  Advice advice;
};
} // namespace

SmallVector<int64_t> Adviser::cutAtBlocks(Candidate &plan, bool isEven) const {
  int64_t stages = plan.parallel.getPp() * plan.interleave;
  int64_t blocks = source.kinds.empty() ? job.model.model->blocks.size() : source.kinds.size();
  if (plan.parallel.getPp() == 1)
    return {};
  std::string reason;
  std::optional<SmallVector<int64_t>> parts = getBlockParts(source, options, plan, reason), first;
  bool isKnown = parts && static_cast<int64_t>(plan.stageBoundaries.size()) == stages + 1 &&
                 plan.stageBoundaries.back() == parts->back();
  if (isKnown && !isEven)
    first = roundToBlocks(plan.stageBoundaries, *parts);
  if (!first)
    first = llvm::map_to_vector(llvm::seq(stages), [&](int64_t stage) { return stage * blocks / stages; });
  plan.stageBoundaries = parts ? getStageBoundaries(*parts, *first) : SmallVector<int64_t>();
  first->push_back(blocks);
  SmallVector<int64_t> counts;
  for (auto [begin, end] : llvm::zip(*first, ArrayRef(*first).drop_front()))
    counts.push_back(end - begin);
  return counts;
}

/// Bytes that a plan may need on a device.
int64_t Adviser::getLimit() const {
  return options.memoryLimit > 0 ? options.memoryLimit : static_cast<int64_t>(options.cluster->getPlanBytes());
}

/// True if `one` fits and is faster, or needs less memory.
bool Adviser::isBetter(const Candidate &one, const Candidate &other) const {
  int64_t limit = getLimit();
  auto rank = [&](const Candidate &plan) {
    bool isMeasured = plan.whole.seconds > 0, fits = plan.getBytes() <= limit;
    return std::tuple(!isMeasured, fits ? 0 : plan.getBytes(), plan.whole.seconds);
  };
  return rank(one) < rank(other);
}

/// Measures the plan without each feature in turn. Then measures it without all of them, with two divisions into
/// stages.
void Adviser::measure(std::vector<Adaptation> adaptations) {
  std::vector<Candidate> plans;
  SmallVector<size_t> ofOmission;
  for (auto [index, one] : llvm::enumerate(adaptations))
    for (const auto &apply : {one.apply, one.other})
      if (apply) {
        ofOmission.push_back(index);
        plans.push_back(job.plan);
        apply(plans.back());
        forgetOldStages(plans.back(), job.plan);
      }
  plans.push_back(advice.runnable);
  SmallVector<int64_t> evenBlocks = cutAtBlocks(plans.emplace_back(advice.runnable), /*isEven=*/true);
  measureCandidates(source, options, plans);
  for (auto [plan, index] : llvm::zip(plans, ofOmission)) {
    Omission &omission = advice.omissions[index];
    bool isWorse = omission.seconds > 0 && (plan.whole.seconds == 0 || plan.whole.seconds > omission.seconds);
    if (isWorse)
      continue;
    omission.seconds = plan.whole.seconds;
    omission.unknown = plan.reason;
  }
  bool isEvenBetter = isBetter(plans.back(), plans[plans.size() - 2]);
  if (isEvenBetter)
    advice.stageBlocks = evenBlocks;
  advice.runnable = std::move(plans[plans.size() - (isEvenBetter ? 1 : 2)]);
  advice.unknown = advice.runnable.reason;
}

static bool isTorchtitan(const FrameworkTarget &target) { return target.framework == Framework::Torchtitan; }

/// Whether the arguments of the job's precision are those of `framework`.
static bool runsPrecision(Framework framework, const PlannedJob &job) {
  Framework core = framework == Framework::MegatronBridge ? Framework::Megatron : framework;
  return getNames(core).name == job.precisionFramework;
}

/// Settings that the file leaves out, since the version does not have them. Megatron-Bridge's recipe has the model.
static std::vector<std::string> findNewSettings(const Advice &advice, const PlannedJob &job) {
  std::vector<SettingGroup> groups = getPlanSettings(advice, job);
  if (advice.target.framework == Framework::Megatron)
    llvm::append_range(groups, getModelSettings(job.model, job.sequence));
  return removeNewSettings(groups, getCoreVersion(advice.target), job);
}

/// Leaves out what the framework lacks.
void Adviser::adapt() {
  std::vector<Adaptation> adaptations =
      isTorchtitan(advice.target) ? adaptToTorchtitan(job, advice.target.version) : adaptToMegatron(job);
  advice.runnable = job.plan;
  for (const Adaptation &one : adaptations)
    if (one.apply)
      one.apply(advice.runnable);
  forgetOldStages(advice.runnable, job.plan);
  SmallVector<int64_t> before = job.plan.stageBoundaries;
  advice.stageBlocks = cutAtBlocks(advice.runnable, /*isEven=*/false);
  bool isPipeline = advice.runnable.parallel.getPp() > 1;
  if (isPipeline && !before.empty() && advice.runnable.stageBoundaries != before)
    adaptations.push_back(
        {{"stages that begin inside a block", "Its pipelines are cut between blocks", "stages of whole blocks"},
         [this](Candidate &plan) { cutAtBlocks(plan, /*isEven=*/false); },
         [this](Candidate &plan) { cutAtBlocks(plan, /*isEven=*/true); }});
  for (const Adaptation &one : adaptations)
    advice.omissions.push_back(one.omission);
  // The search has measured a plan of which nothing is left out.
  if (!adaptations.empty() || advice.runnable.whole.seconds == 0)
    measure(std::move(adaptations));
  advice.isTooLarge = advice.runnable.getBytes() > getLimit();
}

/// Names what the file lacks of the model and of the plan.
void Adviser::findGaps() {
  bool isTitan = isTorchtitan(advice.target);
  // A recipe of Megatron-Bridge describes the model.
  if (advice.target.framework == Framework::Megatron)
    advice.modelGaps = findMegatronGaps(job.model);
  else if (isTitan)
    advice.modelGaps =
        findTorchtitanGaps(findTorchtitanModel(job.model, advice.target.version), job.model, advice.target.version);
  if (!job.precision.name.empty() && !runsPrecision(advice.target.framework, job))
    advice.modelGaps.push_back("products in " + job.precision.name + ", which is a precision of '" +
                               job.precisionFramework + "'");
  if (isTitan)
    return;
  llvm::append_range(advice.modelGaps, findVersionGaps(job.model, getCoreVersion(advice.target)));
  llvm::append_range(advice.modelGaps, findNewSettings(advice, job));
}

Advice Adviser::run(const Advice *similar) {
  if (similar) {
    FrameworkTarget target = advice.target;
    advice = *similar;
    advice.target = target;
    advice.modelGaps.clear();
  } else {
    adapt();
  }
  findGaps();
  return std::move(advice);
}

std::vector<Advice> mlir::moe::advise(ArrayRef<FrameworkTarget> targets, const PlannedJob &job,
                                      const ModelSource &source, const PlanOptions &options) {
  std::vector<Advice> all;
  for (const FrameworkTarget &target : targets) {
    // Megatron-Bridge runs Megatron's core, whose versions run the same plans.
    auto similar = llvm::find_if(all, [&](const Advice &one) {
      return one.target == target || (!isTorchtitan(one.target) && !isTorchtitan(target));
    });
    all.push_back(Adviser(target, job, source, options).run(similar == all.end() ? nullptr : &*similar));
  }
  return all;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static void writeHeader(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const Candidate &plan = job.plan, &own = advice.runnable;
  auto printStep = [&](double seconds) {
    os << llvm::format("%.1f ms (%+.1f%%)", seconds * 1e3, 100 * (seconds / plan.getStepSeconds() - 1));
  };
  os << "# For " << getNames(advice.target.framework).title << " " << advice.target.getTag() << ", by MoePlan.\n"
     << "# The plan: " << describe(plan.parallel) << "; " << describeChoices(plan)
     << llvm::format("; %.1f ms a step.\n", plan.getStepSeconds() * 1e3);
  for (const std::string &gap : advice.modelGaps)
    os << "# Not in this file: " << gap << ".\n";
  for (const Omission &one : advice.omissions) {
    if (one.isRefused) {
      os << "# Cannot run: " << one.feature << ". " << one.reason << ": " << one.unknown << ".\n";
      continue;
    }
    os << "# Left out: " << one.feature << ". " << one.reason << ".";
    if (!one.instead.empty())
      os << " Instead: " << one.instead << ".";
    if (one.seconds > 0)
      os << " A step without it: ", printStep(one.seconds), os << ".";
    else if (!one.unknown.empty())
      os << " What that costs is not known: " << one.unknown << ".";
    os << "\n";
  }
  if (advice.omissions.empty() || advice.isRefused())
    return;
  os << "# With all of that left out: ";
  if (own.whole.seconds > 0) {
    printStep(own.whole.seconds);
    os << llvm::format(", %.1f GB on the fullest GPU%s.\n", static_cast<double>(own.getBytes()) * 1e-9,
                       advice.isTooLarge ? ", more than there is" : "");
  } else {
    os << "not known: " << advice.unknown << ".\n";
  }
}

void mlir::moe::writeArguments(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  writeHeader(advice, job, os);
  switch (advice.target.framework) {
  case Framework::Megatron:
    return writeMegatron(advice, job, os);
  case Framework::MegatronBridge:
    return writeMegatronBridge(advice, job, os);
  case Framework::Torchtitan:
    return writeTorchtitan(advice, job, os);
  }
  llvm_unreachable("all frameworks are handled");
}
