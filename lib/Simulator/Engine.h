//===- Engine.h - devices in virtual time -----------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_ENGINE_H
#define MOE_LIB_SIMULATOR_ENGINE_H

#include "LaunchCosts.h"

namespace mlir::moe {

/// What both engines execute.
struct Execution {
  const SimWorld &world;
  llvm::ArrayRef<SimRank> ranks; ///< all, or one for each class
  const CostModel &model;
  const LaunchCosts &costs;
  Exchanges &exchanges;
  std::vector<double> slowdown; ///< by simulated rank, of local work
  bool emulateLinks = false;

  /// How often a launch of program `program` runs in the whole step, for one time here.
  double getTimes(uint32_t program, uint32_t launch) const {
    const SimProgram::Loop &loop = world.programs[program].loop;
    bool isInLoop = launch >= loop.first && launch < loop.first + loop.count * loop.length;
    return isInLoop ? static_cast<double>(loop.all) / static_cast<double>(loop.count) : 1;
  }
};

/// Every rank has a device of its own. A device works at the heads of all its streams at once; kinds of work slow each
/// other as the cost model says. Fails where it does, and where the ranks hang.
llvm::Expected<std::vector<SimTime>> runOnDevices(const Execution &execution);

/// The host runtime: the ranks of a node share processors, which take what is ready as moert/ExecutorPolicy.h decides.
llvm::Expected<std::vector<SimTime>> runOnProcessors(const Execution &execution);

/// A hang: `rank` is in `launch`, and `other` does not come to it. `otherLaunch` is where that rank is; none where it
/// is done.
llvm::Error makeHangError(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                          std::optional<uint32_t> otherLaunch);
/// Success where two ranks come to a meeting with the same exchange.
llvm::Error checkSameExchange(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                              uint32_t otherLaunch);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_ENGINE_H
