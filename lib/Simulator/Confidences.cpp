//===- Confidences.cpp - confidence in predicted times --------------------===//
#include "Confidences.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

static Confidence findConfidence(const Execution &execution, const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  if (launch.cost.resource != Resource::Network)
    return execution.model.getConfidence(Work{launch.kernel, launch.params, launch.dtype, &launch.cost, {}});
  GroupExchange exchange;
  exchange.collective = launch.cost.collective;
  exchange.dtype = launch.dtype;
  exchange.payload = launch.cost.payload;
  exchange.phase = launch.cost.phase;
  exchange.phases = launch.cost.phases;
  exchange.ranks = execution.exchanges.getMembers(program.firstRank, index);
  return exchange.ranks.size() == 1 ? Confidence() : execution.model.getConfidence(exchange);
}

std::vector<std::vector<Confidence>> mlir::moe::findConfidences(const Execution &execution) {
  std::vector<std::vector<Confidence>> result;
  for (const SimProgram &program : execution.world.programs) {
    std::vector<Confidence> &confidences = result.emplace_back();
    for (uint32_t index = 0; index < program.launches.size(); ++index)
      confidences.push_back(findConfidence(execution, program, index));
  }
  return result;
}
