//===- Alternatives.h - steps of given candidates ---------------*- C++ -*-===//
//
// Questions beside a search: the step of a candidate that the user or a framework has chosen, and the beginnings of
// stages of whole blocks.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_ALTERNATIVES_H
#define MOE_PLANNER_ALTERNATIVES_H

#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

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

} // namespace mlir::moe

#endif // MOE_PLANNER_ALTERNATIVES_H
