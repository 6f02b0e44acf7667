//===- TokenReach.h - how far tokens go ---------------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_TOKENREACH_H
#define MOE_LIB_SIMULATOR_TOKENREACH_H

#include "Counts.h"
#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Of each layer with ragged launches whose experts are on several ranks, of which `nodeRanks` neighbours are a node.
std::vector<TokenReach> findTokenReach(const SimWorld &world, Counts &counts, int64_t nodeRanks);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_TOKENREACH_H
