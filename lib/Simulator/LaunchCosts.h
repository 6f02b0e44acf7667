//===- LaunchCosts.h - costs of launches on each rank -----------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_LAUNCHCOSTS_H
#define MOE_LIB_SIMULATOR_LAUNCHCOSTS_H

#include "Exchanges.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

struct LaunchCost {
  double seconds = 0;          ///< local work alone on its device; the engine finds the times of exchanges
  double flops = 0, bytes = 0; ///< as SimTime
  int64_t rows = -1;
};

/// Costs of all launches, computed before the simulation starts. The ranks of a program share them if no launch is
/// ragged.
class LaunchCosts {
public:
  static llvm::Expected<LaunchCosts> create(const SimWorld &world, llvm::ArrayRef<SimRank> ranks,
                                            const CostModel &model, Counts &counts, Exchanges &exchanges);

  /// Costs of the same program in another order: its launch i is launch `order[i]` here. For a single program.
  LaunchCosts reorder(llvm::ArrayRef<unsigned> order) const;

  /// `rank` is the index of a simulated rank.
  const LaunchCost *get(uint32_t rank) const { return costs.data() + first[rank]; }

private:
  std::vector<LaunchCost> costs;
  std::vector<size_t> first; ///< by simulated rank
};

/// Seconds of a launch that exchanges, alone. If devices share processors, those of `rank`'s share.
llvm::Expected<double> getExchangeSeconds(const SimWorld &world, int64_t rank, uint32_t launch, const CostModel &model,
                                          Exchanges &exchanges);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_LAUNCHCOSTS_H
