//===- WriteTorchtitan.cpp - a job of torchtitan --------------------------===//
//
// Keys are those of torchtitan 0.2.1, torchtitan/config/job_config.py, and of 0.3.0, torchtitan/config/configs.py and
// torchtitan/trainer.py. 0.2 reads a TOML file. 0.3 reads a function in Python.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"
#include "Torchtitan.h"

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

/// Writes the names of each stage's modules, as a list in TOML and in Python. `head` is the name of the last one.
static void writeStages(ArrayRef<int64_t> stageBlocks, StringRef head, StringRef indent, llvm::raw_ostream &os) {
  os << "[\n";
  int64_t block = 0;
  for (auto [stage, count] : llvm::enumerate(stageBlocks)) {
    SmallVector<std::string> names;
    if (stage == 0)
      names.push_back("\"tok_embeddings\"");
    for (int64_t i = 0; i < count; ++i)
      names.push_back("\"layers." + std::to_string(block++) + "\"");
    if (stage + 1 == stageBlocks.size())
      names.append({"\"norm\"", ("\"" + head + "\"").str()});
    os << indent << "  [" << llvm::join(names, ", ") << "],\n";
  }
  os << indent << "]";
}

/// Sequences that a data parallel rank computes before torchtitan adds up gradients. A pipeline divides them into
/// micro-batches.
static int64_t getLocalBatch(const Candidate &plan) {
  return plan.parallel.getPp() > 1 ? plan.batch * plan.microBatches : plan.batch;
}

/// Whether torchtitan has DDP for the plan, which it has for data parallelism alone.
static bool isReplicated(const Candidate &plan) {
  return !plan.zero && plan.parallel.getDp() == plan.parallel.getWorld() && plan.parallel.getEp() == 1;
}

static StringRef getPrecision(const PlannedJob &job) { return job.dtype == "bf16" ? "bfloat16" : "float32"; }

static bool sendsOnce(const Candidate &plan) { return StringRef(plan.schedule).contains("once:"); }

//===----------------------------------------------------------------------===//
// torchtitan 0.2
//===----------------------------------------------------------------------===//

static void writeModel(const TorchtitanModel &model, const Advice &advice, const PlannedJob &job,
                       llvm::raw_ostream &os) {
  if (model.name.empty()) {
    os << "\n[model]\n# Name and flavor of your own model.\n";
    return;
  }
  bool isPlain = advice.runnable.parallel.getCp() > 1 && usesFlexAttention(model);
  if (!model.flavor.empty() && !isPlain) {
    os << "\n[model]\nname = \"" << model.name << "\"\nflavor = \"" << model.flavor << "\"\n";
    return;
  }
  os << "\n# " << (isPlain ? "The flavor's FlexAttention has no context parallelism." : "No flavor has these sizes.")
     << " This command writes one that torchtitan imports from PYTHONPATH, if the file is job.toml:\n"
     << "#   sed -n 's/^#> //p' job.toml > moeplan_flavor.py\n";
  writeTorchtitanFlavor(model, job.model, "#> ", os);
  os << "\n[model]\nname = \"" << model.name << "\"\nflavor = \"moeplan\"\n"
     << "\n[experimental]\ncustom_import = \"moeplan_flavor\"\n";
}

static void writeTraining(const Candidate &plan, const PlannedJob &job, llvm::raw_ostream &os) {
  os << "\n[training]\n"
     << "local_batch_size = " << getLocalBatch(plan) << "\n"
     << "global_batch_size = " << job.getGlobalBatch() << "\n"
     << "seq_len = " << job.sequence << "\n"
     << "mixed_precision_param = \"" << getPrecision(job) << "\"\n"
     << "mixed_precision_reduce = \"float32\"\n";
}

static void writeParallelism(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  ParallelAttr all = plan.parallel;
  os << "\n[parallelism]\n"
     << "data_parallel_replicate_degree = " << (isReplicated(plan) ? all.getDp() : 1) << "\n"
     << "data_parallel_shard_degree = " << (isReplicated(plan) ? 1 : all.getDp())
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
  if (sendsOnce(plan))
    os << "expert_parallel_comm_backend = \"deepep\"\n";
  if (all.getPp() == 1)
    return;
  os << "pipeline_parallel_schedule = \"" << getScheduleName(plan) << "\"\n"
     << "pipeline_parallel_microbatch_size = " << plan.batch << "\n";
  // torchtitan overlaps DualPipeV's exchanges with computation only if it keeps all activations.
  if (plan.pipelineOrder == PipelineOrder::DualPipeV && plan.recompute != Recompute::None)
    os << "pipeline_parallel_expert_parallel_overlap = false\n";
  os << "module_fqns_per_model_part = ";
  writeStages(advice.stageBlocks, "output", "", os);
  os << "\n";
}

static void writeToml(const TorchtitanModel &model, const Advice &advice, const PlannedJob &job,
                      llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  writeModel(model, advice, job, os);
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

//===----------------------------------------------------------------------===//
// torchtitan 0.3
//===----------------------------------------------------------------------===//

/// Name of the class that recomputes as the plan does; empty for none.
static StringRef getCheckpointing(const Candidate &plan) {
  if (plan.recompute == Recompute::None)
    return "";
  return plan.recompute == Recompute::Selective ? "SelectiveAC" : "FullAC";
}

static void writeImports(const TorchtitanModel &model, const PlannedJob &job, const Candidate &plan,
                         llvm::raw_ostream &os) {
  bool isOwn = !model.name.empty() && model.flavor.empty();
  if (isOwn)
    os << "from dataclasses import replace\n\n";
  os << "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss\n"
     << "from torchtitan.components.optimizer import "
     << (job.optimizer == "sgd" ? "OptimizersContainer, ParamGroupConfig\n" : "default_adamw\n")
     << "from torchtitan.config import ParallelismConfig, TrainingConfig\n";
  if (StringRef checkpointing = getCheckpointing(plan); !checkpointing.empty())
    os << "from torchtitan.distributed.activation_checkpoint import " << checkpointing << "\n";
  os << "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader\n"
     << "from torchtitan.models.common.config_utils import decoder_vocab_size\n";
  if (!model.name.empty())
    os << "from torchtitan.models." << model.name << " import ";
  if (isOwn)
    os << getTorchtitanModule(model.name, job.model).layers << ", ";
  os << (model.name.empty() ? "" : "model_registry\n") << "from torchtitan.trainer import Trainer\n";
}

static void writeSpec(const TorchtitanModel &model, const PlannedJob &job, const Candidate &plan,
                      llvm::raw_ostream &os) {
  if (model.name.empty()) {
    os << "    spec = ...  # the ModelSpec of your own model\n";
    return;
  }
  // Attention of variable length has no context parallelism.
  StringRef attention = model.name == "gpt_oss" && plan.parallel.getCp() == 1 ? "varlen" : "flex";
  StringRef dispatcher = sendsOnce(plan) ? "deepep" : "standard";
  StringRef base = model.flavor.empty() ? getTorchtitanModule(model.name, job.model).base : model.flavor;
  os << "    spec = model_registry(\"" << base << "\", attn_backend=\"" << attention << "\"";
  if (job.hasExperts())
    os << ", moe_comm_backend=\"" << dispatcher << "\"";
  os << ")\n";
  if (!model.flavor.empty())
    return;
  os << "    # No flavor has the sizes of the model.\n";
  writeTorchtitanSizes(model, job.model, job.sequence, attention, dispatcher, os);
}

static void writeTrainingConfig(const Candidate &plan, const PlannedJob &job, llvm::raw_ostream &os) {
  os << "        training=TrainingConfig(\n"
     << "            local_batch_size=" << getLocalBatch(plan) << ",\n"
     << "            global_batch_size=" << job.getGlobalBatch() << ",\n"
     << "            seq_len=" << job.sequence << ",\n"
     << "            mixed_precision_param=\"" << getPrecision(job) << "\",\n";
  // Its CUDA graphs need exchanges whose sizes the host does not read.
  if (plan.parallel.getPp() > 1 || plan.parallel.getEp() > 1)
    os << "            disable_cuda_graphs=True,\n";
  os << "        ),\n";
}

static void writeParallelismConfig(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  ParallelAttr all = plan.parallel;
  StringRef indent = "            ";
  os << "        parallelism=ParallelismConfig(\n"
     << indent << "data_parallel_replicate_degree=" << (isReplicated(plan) ? all.getDp() : 1) << ",\n"
     << indent << "data_parallel_shard_degree=" << (isReplicated(plan) ? 1 : all.getDp()) << ",\n"
     << indent << "fsdp_reshard_after_forward=\"" << (plan.zero >= 3 ? "always" : "never") << "\",\n"
     << indent << "tensor_parallel_degree=" << all.getMp() << ",\n";
  if (all.getMp() > 1)
    os << indent << "enable_sequence_parallel=" << (plan.sequenceParallel ? "True" : "False") << ",\n";
  os << indent << "context_parallel_degree=" << all.getCp() << ",\n"
     << indent << "pipeline_parallel_degree=" << all.getPp() << ",\n";
  if (job.hasExperts())
    os << indent << "expert_parallel_degree=" << all.getEp() << ",\n";
  if (all.getPp() > 1) {
    os << indent << "pipeline_parallel_schedule=\"" << getScheduleName(plan) << "\",\n"
       << indent << "pipeline_parallel_microbatch_size=" << plan.batch << ",\n"
       << indent << "module_fqns_per_model_part=";
    writeStages(advice.stageBlocks, "lm_head", indent, os);
    os << ",\n";
  }
  os << "        ),\n";
}

static void writePython(const TorchtitanModel &model, const Advice &advice, const PlannedJob &job,
                        llvm::raw_ostream &os) {
  const Candidate &plan = advice.runnable;
  os << "# Start it with this command, if the file is moeplan_job.py. You also give the learning rate in the file:\n"
     << "#   torchrun .. -m torchtitan.train --module moeplan_job --config moeplan --hf_assets_path=.. "
        "--dataloader.dataset=.. --training.steps=..\n";
  writeImports(model, job, plan, os);
  os << "\nLEARNING_RATE = 8e-4\n\n\ndef moeplan() -> Trainer.Config:\n";
  writeSpec(model, job, plan, os);
  os << "    loss = CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(spec))\n"
     << "    return Trainer.Config(\n"
     << "        model_spec=spec,\n"
     << "        loss=ChunkedLossWrapper.Config(loss_fn=loss),\n"
     << "        dataloader=HuggingFaceTextDataLoader.Config(),\n";
  if (job.optimizer == "sgd")
    os << "        optimizer=OptimizersContainer.Config(param_groups=[ParamGroupConfig(\n"
       << "            pattern=\".*\", optimizer_name=\"SGD\", optimizer_kwargs={\"lr\": LEARNING_RATE})]),\n";
  else if (!job.optimizer.empty())
    os << "        optimizer=default_adamw(lr=LEARNING_RATE),\n";
  writeTrainingConfig(plan, job, os);
  writeParallelismConfig(advice, job, os);
  StringRef checkpointing = getCheckpointing(plan);
  os << "        activation_checkpoint=" << checkpointing << (checkpointing.empty() ? "None" : ".Config()") << ",\n"
     << "    )\n";
}

void mlir::moe::writeTorchtitan(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  const TorchtitanModel model = findTorchtitanModel(job.model, advice.target.version);
  if (advice.target.version >= kTorchtitanInPython)
    writePython(model, advice, job, os);
  else
    writeToml(model, advice, job, os);
}
