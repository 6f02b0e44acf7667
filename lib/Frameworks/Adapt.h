//===- Adapt.h - plans that frameworks can run ------------------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_ADAPT_H
#define MOE_LIB_FRAMEWORKS_ADAPT_H

#include "moe/Frameworks/Advice.h"

#include <functional>

namespace mlir::moe {

/// Something that a framework cannot do, and the change that takes it out of a plan. Without a change MoePlan has no
/// such plan.
struct Adaptation {
  Omission omission;
  std::function<void(Candidate &)> apply;
  std::function<void(Candidate &)> other = nullptr; ///< another way to do so, which may be better; may be null
};

/// In the order in which they are to be applied: each is for the plan that those before it leave. Cuts inside blocks
/// are not among them.
std::vector<Adaptation> adaptToMegatron(const PlannedJob &job);
std::vector<Adaptation> adaptToTorchtitan(const PlannedJob &job);

/// Parts of the model that arguments of Megatron-LM do not describe.
std::vector<std::string> findMegatronGaps(const ModelConfig &model);
/// The name of torchtitan's model of this architecture; empty where it has none.
StringRef getTorchtitanModel(const ModelConfig &model);

/// The files that writeArguments() writes, behind their comments.
void writeMegatron(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeMegatronBridge(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeTorchtitan(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_ADAPT_H
