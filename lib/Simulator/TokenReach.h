//===- TokenReach.h - reach of tokens ---------------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_TOKENREACH_H
#define MOE_LIB_SIMULATOR_TOKENREACH_H

#include "Counts.h"
#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Returns an entry for each layer that has ragged launches and experts on several ranks. A node has `nodeRanks`
/// neighbouring ranks.
std::vector<TokenReach> findTokenReach(const SimWorld &world, Counts &counts, int64_t nodeRanks);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_TOKENREACH_H
