//===- Adapt.cpp - what frameworks cannot do of a plan --------------------===//
//
// Rules of Megatron-LM core_v0.15 come from validate_args() in megatron/training/arguments.py and from
// TransformerConfig.__post_init__. Rules of torchtitan 0.2.1 come from torchtitan/config/job_config.py and
// torchtitan/distributed/{parallel_dims,pipeline_parallel}.py, those of 0.3.0 from torchtitan/config/configs.py and
// torchtitan/models/common/{decoder,moe_sharding}.py.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"
#include "Torchtitan.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;
using Order = PipelineOrder;

namespace {
/// Collects adaptations, and applies them to a plan.
class Adapter {
public:
  explicit Adapter(const PlannedJob &job) : job(job), plan(job.plan) {}

  void add(std::string feature, std::string reason, std::string instead, std::function<void(Candidate &)> apply) {
    apply(plan);
    all.push_back({{std::move(feature), std::move(reason), std::move(instead)}, std::move(apply)});
  }
  /// Adds an omission whose cost is not known, and the reason for that.
  void addUnknown(std::string feature, std::string reason, std::string unknown) {
    all.push_back({{std::move(feature), std::move(reason), "", 0, std::move(unknown)}, nullptr});
  }
  void refuse(std::string feature, std::string reason, std::string remedy) {
    all.push_back({{std::move(feature), std::move(reason), "", 0, std::move(remedy), /*isRefused=*/true}, nullptr});
  }

  void adaptSequences(StringRef reason);
  void adaptSchedule(StringRef reason, bool sendsOnce);
  void adaptOrder(StringRef reason);
  void adaptSideBySide(StringRef reason);
  void adaptRecompute(StringRef reason, bool hasLight);

  const PlannedJob &job;
  Candidate plan;
  std::vector<Adaptation> all;
};
} // namespace

void Adapter::adaptSequences(StringRef reason) {
  if (plan.parallel.getMp() > 1 && !plan.sequenceParallel)
    add("tensor parallelism without sequence parallelism", reason.str(), "sequence parallelism",
        [](Candidate &one) { one.sequenceParallel = true; });
}

/// Replaces the schedule by one that frameworks have: the baseline, or S1 with sequence parallelism. In both, experts
/// get the tokens of each member of a tensor parallel group. `sendsOnce`: whether the framework has a library that
/// sends each token once.
void Adapter::adaptSchedule(StringRef reason, bool sendsOnce) {
  std::string own = job.hasExperts() && plan.parallel.getMp() > 1 && plan.sequenceParallel ? "s1" : "baseline";
  StringRef rest = plan.schedule;
  bool isOwn = own == "baseline" || rest.consume_front(own + "+");
  rest.consume_front("baseline+");
  if (sendsOnce && plan.parallel.getEp() > 1 && isOwn && (rest == "once:node" || rest == "once:rank"))
    return;
  if (plan.schedule != own && !plan.schedule.empty())
    add("the schedule " + plan.schedule, reason.str(), "its own exchanges, as in " + own, [own](Candidate &one) {
      one.schedule = own;
      one.order.reset();
    });
}

/// Sets 1F1B, with one stage on each device if pp does not divide the number of micro-batches.
static void takePlainOrder(Candidate &one) {
  one.pipelineOrder = Order::OneForwardOneBackward;
  if (one.microBatches % one.parallel.getPp() != 0)
    one.interleave = 1;
}

void Adapter::adaptOrder(StringRef reason) {
  add("the order " + getName(plan.pipelineOrder).str(), reason.str(), "1f1b", takePlainOrder);
}

void Adapter::adaptSideBySide(StringRef reason) {
  if (plan.sideBySide > 1)
    add(std::to_string(plan.sideBySide) + " micro-batches side by side", reason.str(), "one after the other",
        [](Candidate &one) { one.sideBySide = 1; });
}

/// Replaces the recomputation by the next coarser one that frameworks have. `hasLight`: whether the framework has a
/// level for the activations of experts alone.
void Adapter::adaptRecompute(StringRef reason, bool hasLight) {
  Recompute own = plan.recompute;
  if (own == Recompute::None || own == Recompute::Selective || own == Recompute::Block ||
      (own == Recompute::Light && hasLight))
    return;
  Recompute instead = own == Recompute::Light ? Recompute::Selective : Recompute::Block;
  add("recompute " + getName(own).str(), reason.str(), "recompute " + getName(instead).str(),
      [instead](Candidate &one) { one.recompute = instead; });
}

//===----------------------------------------------------------------------===//
// Megatron-LM
//===----------------------------------------------------------------------===//

/// Reason why Megatron-LM cannot overlap a forward and a backward in the plan; empty if it can.
static std::string refuseOverlap(const Candidate &plan, bool hasExperts) {
  if (!hasExperts || plan.parallel.getEp() == 1)
    return "--overlap-moe-expert-parallel-comm needs expert parallelism";
  if (plan.parallel.getPp() > 1 && plan.interleave == 1)
    return "--overlap-moe-expert-parallel-comm needs several stages on a device in a pipeline";
  if (plan.recompute == Recompute::Block)
    return "--overlap-moe-expert-parallel-comm cannot be combined with full recomputation";
  return "";
}

std::vector<Adaptation> mlir::moe::adaptToMegatron(const PlannedJob &job) {
  Adapter adapter(job);
  bool hasExperts = job.hasExperts();
  if (hasExperts)
    adapter.adaptSequences("Megatron-LM needs --sequence-parallel to train experts with tensor parallelism");
  if (hasExperts)
    adapter.adaptSchedule("Megatron-LM has one way to dispatch tokens for each --moe-token-dispatcher-type",
                          /*sendsOnce=*/true);
  adapter.adaptRecompute("--recompute-modules names modules, and no other levels", /*hasLight=*/hasExperts);
  const Candidate &plan = adapter.plan;
  if (plan.pipelineOrder == Order::Overlapped1F1B) {
    if (std::string reason = refuseOverlap(plan, hasExperts); !reason.empty())
      adapter.adaptOrder(reason);
  } else if (plan.pipelineOrder != Order::OneForwardOneBackward) {
    adapter.adaptOrder("Megatron-LM has 1F1B, interleaved 1F1B and --overlap-moe-expert-parallel-comm");
  }
  adapter.adaptSideBySide("Megatron-LM has no such option");
  return std::move(adapter.all);
}

//===----------------------------------------------------------------------===//
// torchtitan
//===----------------------------------------------------------------------===//

/// Reason against the groups of experts, whose ranks torchtitan takes from data and tensor parallelism; empty: none.
static std::string refuseExperts(ParallelAttr all, bool isPython) {
  int64_t tp = all.getMp(), etp = all.getEsp(), ep = all.getEp();
  if (ep == 1 && etp != tp)
    return "without expert parallelism, tensor parallelism of " + std::to_string(tp) + " also divides each expert";
  if (isPython && ep > 1 && etp != 1)
    return "beside expert parallelism, torchtitan 0.3 does not divide an expert";
  if (etp != 1 && etp != tp)
    return "expert_tensor_parallel_degree is 1 or the tensor parallel degree, " + std::to_string(tp);
  if (etp == 1 && ep > 1 && ep % tp != 0)
    return "expert_parallel_degree is a multiple of the tensor parallel degree, " + std::to_string(tp) +
           ", where an expert is whole";
  return "";
}

/// Gives the ranks of the pipeline to data parallelism. A step keeps its sequences.
static void takeNoPipeline(Candidate &one) {
  ParallelAttr all = one.parallel;
  int64_t local = one.batch * one.microBatches / all.getPp();
  one.batch = std::gcd(one.batch, local);
  one.microBatches = local / one.batch;
  one.parallel = ParallelAttr::get(all.getContext(), all.getWorld(), /*pp=*/1, all.getDp() * all.getPp(), all.getMp(),
                                   all.getEp(), all.getEsp(), all.getCp());
  one.pipelineOrder = Order::OneForwardOneBackward;
  one.interleave = 1;
  one.stageBoundaries.clear();
}

/// Removes or refuses the groups that a model of torchtitan does not have.
static void adaptGroups(Adapter &adapter, const TorchtitanModel &model) {
  ParallelAttr all = adapter.plan.parallel;
  const std::string pipeline = "a pipeline of " + std::to_string(all.getPp()) + " stages";
  const bool isDivisible = adapter.plan.batch * adapter.plan.microBatches % all.getPp() == 0;
  if (all.getPp() > 1 && !model.noPipeline.empty() && isDivisible)
    adapter.add(pipeline, model.noPipeline, "data parallelism over its ranks; --parallel=auto,pp=1 searches again",
                takeNoPipeline);
  else if (all.getPp() > 1 && !model.noPipeline.empty())
    adapter.refuse(pipeline, model.noPipeline, "plan again with --parallel=auto,pp=1");
  const std::tuple<bool, const std::string &, std::string, const char *> others[] = {
      {all.getMp() > 1, model.noTensor, "tensor parallelism", "mp=1"},
      {all.getEp() > 1, model.noExperts, "expert parallelism", "ep=1"},
      {all.getEp() > 1 && all.getMp() == 1, model.noExpertsAlone, "expert parallelism alone", "mp=2"},
      {all.getCp() > 1, model.noContext, "context parallelism", "cp=1"}};
  for (const auto &[isUsed, reason, feature, instead] : others)
    if (isUsed && !reason.empty())
      adapter.refuse(feature, reason, std::string("plan again with --parallel=auto,") + instead);
}

std::vector<Adaptation> mlir::moe::adaptToTorchtitan(const PlannedJob &job, const llvm::VersionTuple &version) {
  Adapter adapter(job);
  const TorchtitanModel model = findTorchtitanModel(job.model, version);
  const bool isPython = version >= kTorchtitanInPython;
  const std::string noPlan = "MoePlan has no such plan to compare with";
  adaptGroups(adapter, model);
  if (!isPython || job.hasExperts())
    adapter.adaptSequences(isPython ? "torchtitan divides the tokens of experts over tensor parallel ranks"
                                    : "torchtitan's tensor parallelism divides sequences always");
  if (job.hasExperts())
    adapter.adaptSchedule("torchtitan has one way to dispatch tokens for each backend",
                          /*sendsOnce=*/model.hasDeepEp && adapter.plan.parallel.getEsp() == 1);
  adapter.adaptRecompute("torchtitan recomputes nothing, by its list of ops, or whole blocks", /*hasLight=*/false);
  if (!llvm::is_contained({Order::OneForwardOneBackward, Order::ZbV, Order::DualPipeV}, adapter.plan.pipelineOrder))
    adapter.adaptOrder("pipeline_parallel_schedule has no such order");
  adapter.adaptSideBySide("torchtitan has no such option");
  ParallelAttr all = adapter.plan.parallel;
  if (isPython && all.getCp() > 1 && adapter.plan.ringAttention)
    adapter.add("keys and values in a ring", "torchtitan 0.3 gathers them", "a gather",
                [](Candidate &one) { one.ringAttention = false; });
  if (all.getDp() > 1 && job.plan.zero < 3)
    adapter.addUnknown(job.plan.zero > 0 ? "ZeRO-" + std::to_string(job.plan.zero)
                                         : "whole parameters on each data-parallel rank",
                       "data_parallel_shard_degree is FSDP, which divides parameters and gradients, too", noPlan);
  if (std::string reason = job.hasExperts() ? refuseExperts(all, isPython) : ""; !reason.empty())
    adapter.refuse("EP" + std::to_string(all.getEp()) + " with ETP" + std::to_string(all.getEsp()), reason,
                   "plan again with other groups, such as --parallel=auto,esp=1");
  if (!job.wideGradients && job.dtype != "f32")
    adapter.addUnknown("sums of gradients in " + job.dtype, "FSDP of torchtitan sums gradients in f32",
                       "--grad-dtype=f32 plans that");
  return std::move(adapter.all);
}
