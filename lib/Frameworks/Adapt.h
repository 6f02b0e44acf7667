//===- Adapt.h - plans that frameworks can run ------------------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_ADAPT_H
#define MOE_LIB_FRAMEWORKS_ADAPT_H

#include "moe/Frameworks/Advice.h"

#include <functional>

namespace mlir::moe {

/// A feature that a framework lacks, and the change that removes it from a plan. Without a change MoePlan has no such
/// plan.
struct Adaptation {
  Omission omission;
  std::function<void(Candidate &)> apply;
  std::function<void(Candidate &)> other = nullptr; ///< another change, which may be better; may be null
};

/// The adaptations of a plan, in order: each is for the plan that those before it leave. Cuts inside blocks are not
/// among them.
std::vector<Adaptation> adaptToMegatron(const PlannedJob &job);
std::vector<Adaptation> adaptToTorchtitan(const PlannedJob &job);

/// Parts of the model that arguments of Megatron-LM do not describe.
std::vector<std::string> findMegatronGaps(const ModelConfig &model);
/// Name of torchtitan's model of this architecture; empty if it has none.
StringRef getTorchtitanModel(const ModelConfig &model);

/// Write the part of a file after its comments, for writeArguments().
void writeMegatron(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeMegatronBridge(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeTorchtitan(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_ADAPT_H
