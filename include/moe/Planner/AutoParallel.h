//===- AutoParallel.h - the best groups for a model on a cluster -*- C++ -*-===//
//
// --parallel=auto: the sizes of pp, dp, cp, mp, ep and esp. Where a group lies follows from its size alone: mp and esp
// are neighbouring ranks, cp and ep are next to them, pp is farthest apart. The sizes are the placement, and the cost
// model knows the cost of leaving a node.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOPARALLEL_H
#define MOE_PLANNER_AUTOPARALLEL_H

#include "moe/Planner/Explanation.h"
#include "moe/Planner/Planner.h"

#include <functional>
#include <string>
#include <vector>

namespace mlir::moe {

/// Values that the search may choose besides groups and the schedule; the first of each is tried first.
struct StepSpace {
  /// More than one batch only if a global batch is given, since candidates would differ in the tokens of a step.
  SmallVector<int64_t> batches = {1};
  SmallVector<int64_t> interleaves = {1};
  /// Orders for which isEstimated() is false, and all orders of one device, are compared in whole plans alone.
  SmallVector<PipelineOrder> pipelineOrders = {PipelineOrder::OneForwardOneBackward};
  /// Whether two micro-batches may be side by side on one device.
  bool mayBeSideBySide = false;
  /// If there are several, the levels between them are tried, too.
  SmallVector<Recompute> recomputes = {Recompute::None};
  SmallVector<int64_t> zeros = {0};
  /// Choices that are off, and may be on.
  SmallVector<bool StepChoice::*> flags;
  /// Bounds of dropless rows (ModelForm::maxLoad), ever smaller; may be empty. The next is tried if nothing fits.
  SmallVector<double> maxLoads;
};

/// The space around the choices of `options`, without batches and bounds of dropless rows.
StepSpace getStepSpace(const PlanOptions &options, function_ref<bool(StringRef option)> isOpen);
/// Leaves out all that options.rules do not allow for any plan. getStepSpace() does so, too.
StepSpace restrictSpace(const PlanOptions &options, StepSpace space);

/// Progress of a search.
struct SearchProgress {
  StringRef phase;
  size_t done = 0, all = 0;
  /// The best so far: one that was compiled as a whole if there is any, otherwise estimated. Null before there is one.
  const Candidate *best = nullptr;
};

struct ParallelRequest {
  int64_t world = 1;
  int64_t microBatches = 1;
  /// Sequences of a step: batch * dp * micro-batches, which it gives. Absent: candidates differ in it.
  std::optional<int64_t> globalBatch;
  GivenGroups given;
  std::vector<ParallelAttr> groups; ///< the only groups that are compared; empty: all
  StepSpace space;
  Objective objective = Objective::Throughput;
  /// The plan of a user's job, which the choice is compared with. It gets the room for dropless rows that a candidate
  /// has. If its choices are open and it fits, it is a candidate, so that the choice is not slower. Absent: none.
  std::optional<Candidate> job;
  /// Called with the progress, from any thread but one at a time. May be null.
  std::function<void(const SearchProgress &)> showProgress;
  /// Called if nothing fits: describes remedies that make the plan of `smallest`, with these options and of so many
  /// bytes (0: not known), fit into `limit`. May be null.
  std::function<std::string(const Candidate &smallest, const PlanOptions &, int64_t bytes, int64_t limit)>
      describeRemedies;
};

/// Chooses the groups, and all else that the request leaves open, that are best by the request's objective on the
/// cluster, within options.memoryLimit or else the device's memory. It ignores options.parallel, and the values of
/// options that the request varies. The chosen candidate of a whole model was compiled and simulated in as many
/// micro-batches as fill the pipeline. A search that is stopped takes the best that it has compared. Errors, such as
/// that nothing fits, are reported at an unknown place.
FailureOr<GroupsExplanation> chooseParallel(const ModelSource &source, const ParallelRequest &request,
                                            const PlanOptions &options);

/// Calls chooseParallel, and then compiles the best in options.schedule. The module's `plan.explain_parallel` says why.
FailureOr<OwningOpRef<ModuleOp>> compileBestParallel(const ModelSource &source, const ParallelRequest &request,
                                                     const PlanOptions &options);

/// The first part of each block of a whole model, as moe-cut-stages counts parts, and then the first part behind the
/// last block and the number of all parts. Parts depend on the candidate's schedule and groups. None if samples do not
/// tell; `reason` says why.
std::optional<SmallVector<int64_t>> getBlockParts(const ModelSource &source, const PlanOptions &options,
                                                  const Candidate &candidate, std::string &reason);

/// candidate.stageBoundaries for stages that begin with these blocks; the first stage has the embedding, too. A stage
/// that begins behind the last block has the head alone. Empty where two stages would begin at one place.
SmallVector<int64_t> getStageBoundaries(ArrayRef<int64_t> blockParts, ArrayRef<int64_t> firstBlocks);

/// Compiles each candidate and simulates its step, as a search does with the candidates that it compiles. Its `whole`
/// has the figures and its verdict is `compiled`, also where it needs more memory than there is; otherwise its verdict
/// is `illegal`, and `reason` says why.
void measureCandidates(const ModelSource &source, const PlanOptions &options, MutableArrayRef<Candidate> candidates);

/// Whether samples tell the step of these options.
bool isSampled(const PlanOptions &options);

/// Compiles a few blocks in a few micro-batches, and composes the step of `candidate` from their costs. That takes
/// about a second for any number of blocks, micro-batches and ranks, and differs from the compiled step by the figures
/// in docs/Simulator.md. None if there is no sample; `reason` says why.
std::optional<SampledStep> sampleStep(const ModelSource &source, const PlanOptions &options, const Candidate &candidate,
                                      std::string &reason);

/// Options for the plan of `choice`, which is only compared with others.
PlanOptions getChoiceOptions(const StepChoice &choice, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOPARALLEL_H
