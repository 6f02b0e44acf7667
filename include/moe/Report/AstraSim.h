//===- AstraSim.h - a cluster as ASTRA-sim's files --------------*- C++ -*-===//
//
// Files that describe a cluster to ASTRA-sim's analytical network, beside the Chakra traces of a step.
// docs/Outputs.md, "Run ASTRA-sim", explains them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_REPORT_ASTRASIM_H
#define MOE_REPORT_ASTRASIM_H

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

struct AstraSimFile {
  std::string name, text;
};

/// Returns network.yml, memory.json, system.json and replay.json for the cluster of `model`. A device has the rate and
/// the latency at which the model exchanges the largest all_to_all of the step, or its largest exchange. Fails if the
/// model does.
llvm::Expected<std::vector<AstraSimFile>> makeAstraSimFiles(const SimResult &step, const CostModel &model);

} // namespace mlir::moe

#endif // MOE_REPORT_ASTRASIM_H
