//===- MegatronJob.h - how a Megatron-LM job divides its model --*- C++ -*-===//
#ifndef MOE_FRAMEWORKS_MEGATRONJOB_H
#define MOE_FRAMEWORKS_MEGATRONJOB_H

#include "moe/Cost/FrameworkProfile.h"
#include "moe/Import/MegatronArguments.h"
#include "moe/Planner/Candidate.h"

namespace mlir::moe {

/// A module of --recompute-modules.
struct MegatronModule {
  StringLiteral name;
  Recompute level; ///< the finest one that computes again all that the module does
  bool needsExperts = false, needsLatent = false;
};
/// All modules, from the least to the most that is computed again. No plan keeps the scores of attention (core_attn).
inline constexpr MegatronModule kMegatronModules[] = {
    {"core_attn", Recompute::None},
    {"moe_act", Recompute::Light, /*needsExperts=*/true},
    {"layernorm", Recompute::Selective},
    {"mla_up_proj", Recompute::Selective, false, /*needsLatent=*/true},
    {"shared_experts", Recompute::Block, /*needsExperts=*/true},
    {"mlp", Recompute::Block},
    {"moe", Recompute::Block, /*needsExperts=*/true}};

struct MegatronJob {
  /// The job in the planner's terms. `firstBlocks` replaces the places where its stages begin.
  Candidate plan;
  /// First block of each stage; empty without a pipeline.
  SmallVector<int64_t> firstBlocks;
  FrameworkUse use;           ///< its dispatcher, empty for the first one, and its graph scope
  int64_t sequence = 0;       ///< tokens
  int64_t globalBatch = 0;    ///< sequences of a step of all ranks
  std::string dtype;          ///< "bf16", "f16" or "f32"
  std::string optimizer;      ///< "adam" or "sgd"
  bool wideGradients = false; ///< gradients are summed in f32
  /// Numbers of the optimizer, by the options of moe-compile.
  std::vector<std::pair<StringRef, double>> optimizerNumbers;
  /// Differences between the plan and the job.
  std::vector<ConfigRemark> remarks;
};

/// Number of ranks that torchrun starts (--nnodes times --nproc-per-node); 0 if the arguments do not give it.
int64_t getMegatronRanks(const MegatronArguments &arguments);

/// Reads the job on `world` ranks, for a model with this number of blocks and experts (0: without experts). An error is
/// a complete diagnostic: sizes that do not divide the ranks or each other, or a feature that MoePlan lacks.
llvm::Expected<MegatronJob> readMegatronJob(MLIRContext *context, const MegatronArguments &arguments, int64_t world,
                                            int64_t blocks, int64_t experts);

/// Number of blocks of each stage of a layout such as `Et*3|(tt|)*29,m|L`, where E is the embedding, t a block, m a
/// block for further tokens, and L the head and the loss. Null if `text` is no layout.
std::optional<SmallVector<int64_t>> parsePipelineLayout(StringRef text);
/// The shortest layout of stages with these numbers of blocks.
std::string writePipelineLayout(ArrayRef<int64_t> blocks);

} // namespace mlir::moe

#endif // MOE_FRAMEWORKS_MEGATRONJOB_H
