//===- WriteMegatron.cpp - arguments of Megatron-LM -----------------------===//
#include "Adapt.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;

/// Quotes `value` for a shell.
static std::string quote(StringRef value) {
  bool isPlain = llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || StringRef("_-+.,/:").contains(c); });
  return isPlain ? value.str() : "'" + value.str() + "'";
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
  removeNewSettings(groups, getCoreVersion(advice.target), job);
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
