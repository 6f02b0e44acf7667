//===- WriteTorchtitan.cpp - a job of torchtitan --------------------------===//
//
// Keys are those of torchtitan v0.2.1, torchtitan/config/job_config.py.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;

static StringRef getScheduleName(const Candidate &plan) {
  if (plan.pipelineOrder == PipelineOrder::ZbV)
    return "ZBVZeroBubble";
  if (plan.pipelineOrder == PipelineOrder::DualPipeV)
    return "DualPipeV";
  return plan.interleave > 1 ? "Interleaved1F1B" : "1F1B";
}

/// Writes the names of each stage's modules.
static void writeStages(ArrayRef<int64_t> stageBlocks, llvm::raw_ostream &os) {
  os << "module_fqns_per_model_part = [\n";
  int64_t block = 0;
  for (auto [stage, count] : llvm::enumerate(stageBlocks)) {
    SmallVector<std::string> names;
    if (stage == 0)
      names.push_back("\"tok_embeddings\"");
    for (int64_t i = 0; i < count; ++i)
      names.push_back("\"layers." + std::to_string(block++) + "\"");
    if (stage + 1 == stageBlocks.size())
      names.append({"\"norm\"", "\"output\""});
    os << "  [" << llvm::join(names, ", ") << "],\n";
  }
  os << "]\n";
}

static void writeModel(const PlannedJob &job, llvm::raw_ostream &os) {
  const LayerSpec &layer = job.model.layer;
  os << "\n[model]\n"
     << "name = \"" << getTorchtitanModel(job.model) << "\"\n"
     << "# The flavor with " << job.model.model->blocks.size() << " layers of " << layer.hidden << " columns";
  if (job.hasExperts())
    os << ", " << layer.experts << " experts, " << layer.topK << " for each token";
  os << ".\nflavor = \"\"\n";
}

static void writeTraining(const Candidate &plan, const PlannedJob &job, llvm::raw_ostream &os) {
  // A pipeline divides a rank's sequences into micro-batches; without one a step has several of them.
  int64_t local = plan.parallel.getPp() > 1 ? plan.batch * plan.microBatches : plan.batch;
  os << "\n[training]\n"
     << "local_batch_size = " << local << "\n"
     << "global_batch_size = " << job.getGlobalBatch() << "\n"
     << "seq_len = " << job.sequence << "\n"
     << "mixed_precision_param = \"" << (job.dtype == "bf16" ? "bfloat16" : "float32") << "\"\n"
     << "mixed_precision_reduce = \"float32\"\n";
}

static void writeParallelism(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  ParallelAttr all = plan.parallel;
  // torchtitan has DDP for data parallelism alone.
  bool isReplicated = !plan.zero && all.getDp() == all.getWorld() && all.getEp() == 1;
  os << "\n[parallelism]\n"
     << "data_parallel_replicate_degree = " << (isReplicated ? all.getDp() : 1) << "\n"
     << "data_parallel_shard_degree = " << (isReplicated ? 1 : all.getDp())
     << "\n"
     // Without ZeRO-3, parameters are gathered once for forward and backward.
     << "fsdp_reshard_after_forward = \"" << (plan.zero >= 3 ? "always" : "never") << "\"\n"
     << "tensor_parallel_degree = " << all.getMp() << "\n"
     << "context_parallel_degree = " << all.getCp() << "\n";
  if (all.getCp() > 1)
    os << "context_parallel_rotate_method = \"" << (plan.ringAttention ? "alltoall" : "allgather") << "\"\n";
  os << "pipeline_parallel_degree = " << all.getPp() << "\n";
  if (job.hasExperts())
    os << "expert_parallel_degree = " << all.getEp() << "\n"
       << "expert_tensor_parallel_degree = " << all.getEsp() << "\n";
  if (all.getPp() == 1)
    return;
  os << "pipeline_parallel_schedule = \"" << getScheduleName(plan) << "\"\n"
     << "pipeline_parallel_microbatch_size = " << plan.batch << "\n";
  writeStages(advice.stageBlocks, os);
}

void mlir::moe::writeTorchtitan(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  writeModel(job, os);
  if (!job.optimizer.empty())
    os << "\n[optimizer]\nname = \"" << (job.optimizer == "adam" ? "AdamW" : "SGD") << "\"\n";
  writeTraining(plan, job, os);
  writeParallelism(advice, job, os);
  bool isSelective = plan.recompute == Recompute::Selective;
  os << "\n[activation_checkpoint]\nmode = \""
     << (plan.recompute == Recompute::None ? "none"
         : isSelective                     ? "selective"
                                           : "full")
     << "\"\n";
  if (isSelective)
    os << "selective_ac_option = \"op\"\n";
}
