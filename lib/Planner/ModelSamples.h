//===- ModelSamples.h - what a model costs, from a few of its blocks -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_MODELSAMPLES_H
#define MOE_LIB_PLANNER_MODELSAMPLES_H

#include "ModelStep.h"

#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

/// Reads the graph in that form, or only these `blocks` of it if there are some.
GraphReader readBlocks(const ModelSource &source, ModelForm form, ArrayRef<int64_t> blocks = {});

/// The parts of a model of any number of blocks, on one rank.
struct ModelCost {
  SmallVector<PartCost> begin, end;             ///< before the first block, and after the last
  std::vector<SmallVector<PartCost>> kindParts; ///< parts of a block of each kind
  /// The most bytes that a stage may receive: with more, it would begin inside a part that hands over several values.
  double mostReceived = std::numeric_limits<double>::infinity();
  std::optional<StepClass> measured; ///< as in SampledParts
};

/// Number of blocks of each kind in a sample. The host, which issues launches ahead of the device, waits for other work
/// in the first and in the last block than in the model. Only one between them takes the same time.
enum class SampleSize { Small, Large };

/// The kinds of `source`, each by its first block.
SmallVector<int64_t> getKinds(const ModelSource &source);

/// Takes costs from one plan with a block of each of `kinds`: the model has at least one of each. options.parallel is
/// of one stage, and of form.dataParallel ranks. None if the plan cannot be compiled, or if its parts do not tell the
/// blocks apart; `reason` says why.
std::optional<ModelCost> sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds, const ModelForm &form,
                                     const PlanOptions &options, SampleSize size, std::string &reason);

/// PartCost::window of a block of each kind, and of the rest of the model.
struct WindowCost {
  SmallVector<double> kinds;
  double rest = 0;

  void addTo(ModelCost &cost) const;
};

/// Takes them by difference, from plans of one stage in options.pipelineOrder.
std::optional<WindowCost> sampleWindows(const ModelSource &source, ArrayRef<int64_t> kinds, const ModelForm &form,
                                        const PlanOptions &options, std::string &reason);

/// Takes costs by difference, from a plan with a block of each kind and plans with one more. This serves plans whose
/// launches are put into another order, in which those of one part are not together. Each block is one part, and all
/// work for a micro-batch counts as its forward.
std::optional<ModelCost> sampleModelByDifference(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                 const ModelForm &form, const PlanOptions &options,
                                                 std::string &reason);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_MODELSAMPLES_H
