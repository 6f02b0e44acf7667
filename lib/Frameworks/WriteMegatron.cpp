//===- WriteMegatron.cpp - arguments of Megatron-LM and Megatron-Bridge ---===//
#include "Adapt.h"

#include "llvm/ADT/StringExtras.h"

#include "moe/Import/MegatronArguments.h"

using namespace mlir;
using namespace mlir::moe;

/// Quotes `value` for a shell.
static std::string quote(StringRef value) {
  bool isPlain = llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || StringRef("_-+.,/:").contains(c); });
  return isPlain ? value.str() : "'" + value.str() + "'";
}

/// Value of CUDA_DEVICE_MAX_CONNECTIONS that Megatron-LM asks for on devices before Blackwell; 0 if it accepts any.
static int getConnections(const Candidate &plan) {
  if (plan.zero >= 2 || plan.pipelineOrder == PipelineOrder::Overlapped1F1B)
    return 32;
  return plan.parallel.getMp() > 1 || plan.parallel.getCp() > 1 ? 1 : 0;
}

void mlir::moe::writeMegatron(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  os << "# Start it with these commands, if the file is args.txt. You also give the data, the tokenizer, the learning\n"
     << "# rate and the number of steps:\n";
  if (int connections = getConnections(advice.runnable))
    os << "#   export CUDA_DEVICE_MAX_CONNECTIONS=" << connections << "\n";
  os << "#   grep -v '^#' args.txt | xargs torchrun .. pretrain_gpt.py --data-path .. --tokenizer-type .. --lr .. "
        "--train-iters ..\n";
  std::vector<SettingGroup> groups = getPlanSettings(advice, job);
  llvm::append_range(groups, getModelSettings(job.model, job.sequence));
  for (const SettingGroup &group : groups) {
    os << "\n# " << group.title << (group.remark.empty() ? "" : ": ") << group.remark << "\n";
    for (const Setting &setting : group.settings) {
      os << "--" << setting.flag;
      for (const std::string &value : setting.values)
        os << " " << quote(value);
      os << "\n";
    }
  }
}

static std::string getFieldValue(const Setting &setting) {
  if (!setting.bridgeValue.empty())
    return setting.bridgeValue;
  if (setting.values.empty())
    return "True";
  int64_t number = 0;
  StringRef value = setting.values.front();
  return value.getAsInteger(10, number) ? "\"" + value.str() + "\"" : value.str();
}

void mlir::moe::writeMegatronBridge(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os) {
  os << "# Apply it to a recipe's configuration before pretrain(); the recipe describes the model: "
     << job.model.architecture << ".\n"
     << "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n\n\n"
     << "def apply_plan(cfg):\n"
     << "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)\n"
     << "    cfg.dataset.sequence_length = " << job.sequence << "\n";
  if (advice.runnable.recompute == Recompute::None)
    os << "    cfg.model.recompute_granularity = None\n";
  if (!advice.stageBlocks.empty() && !llvm::all_equal(advice.stageBlocks) && advice.runnable.interleave > 1)
    os << "    cfg.model.virtual_pipeline_model_parallel_size = " << advice.runnable.interleave << "\n";
  for (const SettingGroup &group : getPlanSettings(advice, job)) {
    os << "    # " << group.title << (group.remark.empty() ? "" : ": ") << group.remark << "\n";
    for (const Setting &setting : group.settings)
      if (setting.inBridge)
        os << "    cfg." << findMegatronFlag(setting.flag)->getBridgeField() << " = " << getFieldValue(setting) << "\n";
  }
  os << "    return cfg\n";
}
