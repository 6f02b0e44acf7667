//===- PlanAnswer.cpp - how to run a model on a cluster, in three lines ---===//
#include "moe/Report/PlanAnswer.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr double giga = 1e-9, tera = 1e-12;

/// As a percentage of the step.
static double getShare(const StepFigures &step, double seconds) {
  return step.seconds > 0 ? 100 * seconds / step.seconds : 0;
}

static int64_t getGlobalBatch(const Candidate &one) { return one.batch * one.parallel.getDp() * one.microBatches; }

static void printGroups(const Candidate &one, llvm::raw_ostream &os) {
  ParallelAttr all = one.parallel;
  os << "groups  TP" << all.getMp() << " PP" << all.getPp() << " DP" << all.getDp() << " EP" << all.getEp() << " ETP"
     << all.getEsp() << " CP1, MBS " << one.batch << ", GA " << one.microBatches;
  os << "; " << describeChoices(one) << "\n"
     << "        " << describeOptions(one) << "\n";
}

static void printStep(const Candidate &one, llvm::raw_ostream &os) {
  const StepFigures &step = one.whole.seconds > 0 ? one.whole : one.estimate;
  os << llvm::format("step    %.1f ms", step.seconds * 1e3) << (one.whole.seconds > 0 ? "" : " (estimated)");
  StepSpeed speed = step.getSpeed();
  if (speed.tokensPerSecond > 0)
    os << llvm::format(": %.0f tokens/s/GPU, %.0f TFLOP/s/GPU, MFU %.1f%%", speed.tokensPerSecond,
                       speed.flopsPerSecond * tera, 100 * speed.mfu);
  if (step.parts.getSum() > 0)
    os << llvm::format("; bubble %.1f%%, exposed communication %.1f%% (%.0f%% hidden)",
                       getShare(step, step.parts.bubble), getShare(step, step.parts.exposedCommunication),
                       100 * step.parts.getHiddenShare());
  if (step.uncertainty > 0)
    os << llvm::format("; expected error %.1f%%", 100 * step.uncertainty);
  os << "\n";
}

void mlir::moe::printAnswer(const PlanQuestion &question, const Candidate &chosen, llvm::raw_ostream &os) {
  os << question.model << " on " << question.gpus << " x " << question.device << " (" << question.cluster << "), ";
  if (question.sequence > 0)
    os << "a step of " << getGlobalBatch(chosen) << " sequences of " << question.sequence << " tokens, "
       << question.dtype;
  else
    os << "a step of the graph's tokens";
  if (!question.optimizer.empty())
    os << ", " << question.optimizer;
  os << "\n";
  printGroups(chosen, os);
  printStep(chosen, os);
  os << llvm::format("memory  %.1f GB", static_cast<double>(chosen.getBytes()) * giga);
  if (question.memoryLimit > 0)
    os << llvm::format(" of %.1f GB", question.memoryLimit * giga);
  os << " on the fullest device\n";
}

void mlir::moe::writeAnswer(const PlanQuestion &question, const Candidate &chosen, StringRef explanation,
                            llvm::raw_ostream &os) {
  ParallelAttr all = chosen.parallel;
  const StepFigures &step = chosen.whole.seconds > 0 ? chosen.whole : chosen.estimate;
  StepSpeed speed = step.getSpeed();
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("model", question.model);
    json.attribute("cluster", question.cluster);
    json.attribute("device", question.device);
    json.attribute("gpus", question.gpus);
    if (question.sequence > 0) {
      json.attribute("sequence", question.sequence);
      json.attribute("global_batch", getGlobalBatch(chosen));
      json.attribute("dtype", question.dtype);
    }
    json.attribute("optimizer", question.optimizer);
    json.attributeObject("megatron", [&] {
      json.attribute("tensor_model_parallel_size", all.getMp());
      json.attribute("pipeline_model_parallel_size", all.getPp());
      json.attribute("data_parallel_size", all.getDp());
      json.attribute("expert_model_parallel_size", all.getEp());
      json.attribute("expert_tensor_parallel_size", all.getEsp());
      json.attribute("context_parallel_size", 1);
      json.attribute("virtual_pipeline_model_parallel_size", chosen.interleave);
      json.attribute("overlap_moe_expert_parallel_comm", chosen.pipelineOrder == PipelineOrder::Overlapped1F1B);
      json.attribute("micro_batch_size", chosen.batch);
      json.attribute("gradient_accumulation_steps", chosen.microBatches);
    });
    json.attribute("parallel", describe(all));
    json.attribute("pipeline", getName(chosen.pipelineOrder));
    json.attribute("recompute", getName(chosen.recompute));
    json.attribute("zero", chosen.zero);
    json.attribute("sequence_parallel", chosen.sequenceParallel);
    json.attribute("schedule", chosen.schedule);
    json.attribute("options", describeOptions(chosen));
    json.attribute("is_estimate", chosen.whole.seconds == 0);
    json.attribute("seconds", step.seconds);
    json.attribute("tokens_per_second_per_gpu", speed.tokensPerSecond);
    json.attribute("flops_per_second_per_gpu", speed.flopsPerSecond);
    json.attribute("mfu", speed.mfu);
    json.attribute("bubble_seconds", step.parts.bubble);
    json.attribute("exposed_communication_seconds", step.parts.exposedCommunication);
    json.attribute("hidden_communication_seconds", step.parts.hiddenCommunication);
    json.attribute("memory_bytes", chosen.getBytes());
    json.attribute("memory_limit_bytes", question.memoryLimit);
    if (!explanation.empty()) {
      json.attributeBegin("explanation");
      json.rawValue(explanation.trim());
      json.attributeEnd();
    }
  });
  os << "\n";
}
