//===- Alternatives.cpp - steps of given candidates -----------------------===//
#include "moe/Planner/Alternatives.h"

#include "StepEstimator.h"
#include "Threads.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

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
    ModelForm form{one.parallel.getDp(), one.batch, one.maxLoad};
    std::optional<WholeModel> whole = measureFilledModel(readBlocks(source, form), getChoiceOptions(one, options),
                                                         /*limit=*/0, one.reason);
    one.verdict = whole ? Verdict::Compiled : Verdict::Illegal;
    one.whole = whole ? whole->step : StepFigures();
  });
}
