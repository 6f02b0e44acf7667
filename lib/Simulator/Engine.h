//===- Engine.h - execution in virtual time, and its figures ----*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_ENGINE_H
#define MOE_LIB_SIMULATOR_ENGINE_H

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

/// Each rank stands for itself.
std::vector<SimRank> getAllRanks(const SimWorld &world);

/// Returns one rank for each class of ranks that do the same. The ranks of a class run one program, and their groups
/// have the same shape: in order, the members spread alike over nodes and over the switches above them. Devices of a
/// node count as equal. Returns all ranks if a class is not one run of consecutive ranks or the members of a group are
/// of several classes, because then no rank can stand for others.
std::vector<SimRank> findClasses(const SimWorld &world, const ClusterProfile &profile);

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
  /// Seconds of local work alone on its device. `rank` is the index of a simulated rank, here and below.
  double getSeconds(uint32_t rank, uint32_t launch) const { return costs.get(rank)[launch].seconds * slowdown[rank]; }
  SimTime makeTime(uint32_t rank, uint32_t launch, bool isCollective, double begin, double end, int32_t cause) const {
    const LaunchCost &cost = costs.get(rank)[launch];
    double alone = isCollective ? 0 : getSeconds(rank, launch);
    return {rank, launch, begin, end, cause, cost.rows, cost.flops, cost.bytes, alone};
  }
};

/// Local work at a speed that changes with time.
struct LocalWork {
  double remaining = 0, since = 0; ///< seconds alone that remain at `since`
  double speed = 0;                ///< 0 until it is set

  /// Changes the speed at `now`. Returns the time at which the work ends.
  double setSpeed(double now, double newSpeed) {
    remaining = std::max(0.0, remaining - (now - since) * speed);
    since = now;
    speed = newSpeed;
    return now + remaining / speed;
  }
};

/// Keeps the first error of a run, which stops there.
class FirstError {
public:
  void take(llvm::Error next) {
    if (next && !*this)
      text = llvm::toString(std::move(next));
    else
      llvm::consumeError(std::move(next));
  }
  explicit operator bool() const { return !text.empty(); }
  llvm::Error get() const { return text.empty() ? llvm::Error::success() : llvm::createStringError(text); }

private:
  std::string text;
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

// Members of SimResult. The bounds and the bytes fail if the cost model does.
llvm::Expected<SimResult::Roofline> computeRoofline(const Execution &execution);
llvm::Expected<SimResult::Sent> computeSent(const Execution &execution);
std::vector<std::vector<Confidence>> findConfidences(const Execution &execution);
/// Returns an entry for each layer that has ragged launches and experts on several ranks. A node has `nodeRanks`
/// neighbouring ranks.
std::vector<TokenReach> findTokenReach(const SimWorld &world, Counts &counts, int64_t nodeRanks);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_ENGINE_H
