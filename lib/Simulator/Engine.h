//===- Engine.h - devices in virtual time -----------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_ENGINE_H
#define MOE_LIB_SIMULATOR_ENGINE_H

#include "LaunchCosts.h"

namespace mlir::moe {

/// Input of both engines.
struct Execution {
  const SimWorld &world;
  llvm::ArrayRef<SimRank> ranks; ///< all ranks, or one for each class
  const CostModel &model;
  const LaunchCosts &costs;
  Exchanges &exchanges;
  std::vector<double> slowdown; ///< for local work, by simulated rank
  bool emulateLinks = false;

  /// Number of times that a launch of `program` runs in the whole step for each time that it runs here.
  double getTimes(uint32_t program, uint32_t launch) const {
    const SimProgram::Loop &loop = world.programs[program].loop;
    bool isInLoop = launch >= loop.first && launch < loop.first + loop.count * loop.length;
    return isInLoop ? static_cast<double>(loop.all) / static_cast<double>(loop.count) : 1;
  }
};

/// Each rank has its own device. A device works at the heads of all its streams at once, and kinds of work slow each
/// other as the cost model says. Fails if the cost model does, or if the ranks hang.
llvm::Expected<std::vector<SimTime>> runOnDevices(const Execution &execution);

/// Simulates the host runtime: the ranks of a node share processors, which take ready work as moert/ExecutorPolicy.h
/// decides.
llvm::Expected<std::vector<SimTime>> runOnProcessors(const Execution &execution);

/// Describes a hang: `rank` is in `launch`, and `other` does not come to it. `otherLaunch` is where `other` is, or none
/// if it has ended.
llvm::Error makeHangError(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                          std::optional<uint32_t> otherLaunch);
/// Success if two ranks come to a meeting with the same exchange.
llvm::Error checkSameExchange(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                              uint32_t otherLaunch);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_ENGINE_H
