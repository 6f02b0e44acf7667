//===- Simulator.h - a plan in virtual time ---------------------*- C++ -*-===//
//
// Executes the rank programs of a plan on a described cluster, with streams, events, launches, kinds of work that slow
// each other, and exchanges that wait for their last member. docs/Simulator.md describes the model and its limits.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_SIMULATOR_H
#define MOE_SIMULATOR_SIMULATOR_H

#include "moe/Cost/CostModel.h"
#include "moe/Simulator/Program.h"
#include "moe/Simulator/Routing.h"

#include <map>
#include <memory>

namespace mlir::moe {

struct Straggler {
  int64_t rank = 0;
  double slowdown = 1; ///< 1.2 if its device takes 1.2 times as long to compute and to copy
};

class LaunchCosts;

/// Costs of launches, which do not depend on their order. Simulations of one program in several orders share them, on
/// one model with one routing.
struct KnownCosts {
  /// Number of each simulated launch in the program that the costs were computed for.
  llvm::ArrayRef<unsigned> order;
  std::map<int64_t, std::shared_ptr<const LaunchCosts>> ofIteration;
};

struct SimOptions {
  /// Routing is even if this is null.
  const RoutingTrace *routing = nullptr;
  int64_t iteration = 0;
  std::vector<Straggler> stragglers;
  /// Emulates links as moe-run --emulate-links does: each transfer takes at least SimLaunch::transferSeconds after the
  /// arrival of its last member, and keeps no processor busy. Only if devices share processors.
  bool emulateLinks = false;
  /// Simulates every rank, even if one could stand for its class.
  bool allRanks = false;
  /// Simulates every iteration of a plan's loops, even if they repeat themselves in time.
  bool allIterations = false;
  /// Also computes SimResult::roofline, sent, confidences and reach, for the whole step.
  bool figures = true;
  /// Also computes SimResult::pairBytes. Only with allIterations.
  bool pairBytes = false;
  KnownCosts *known = nullptr; ///< for a single program; may be null
};

/// Time of a launch on a rank.
struct SimTime {
  uint32_t rank;   ///< index in SimResult::ranks
  uint32_t launch; ///< number in the rank's program
  double begin = 0, end = 0;
  /// Index in SimResult::times of the last event that it had to wait for; -1 if that was its own issue. That event
  /// ended when this launch began, unless shared processors were busy with work that has no time of its own.
  int32_t cause = -1;
  int64_t rows = -1; ///< rows that a ragged launch uses
  double flops = 0;  ///< FLOPs for these rows
  double bytes = 0;  ///< bytes moved, or sent by an exchange
  double alone = 0;  ///< seconds if nothing ran beside it; 0 for an exchange
};

/// A simulated rank, which stands for itself and others that do exactly the same.
struct SimRank {
  int64_t rank = 0;  ///< first of them
  int64_t count = 1; ///< number of consecutive ranks
  uint32_t program = 0;
};

/// Reach of the tokens of an MoE layer: how many of the ranks that exchange its rows hold experts of a token. Means
/// over the tokens of all ranks.
struct TokenReach {
  std::string layer;
  int64_t numRanks = 1, numNodes = 1; ///< with experts of the layer; the most nodes if ranks differ
  double ranks = 0, nodes = 0;        ///< with experts of a token
  double otherNodes = 0;              ///< nodes other than the token's own
  /// whether it was counted token by token, from a trace with choices; else it is an expected value
  bool isCounted = false;

  bool operator==(const TokenReach &) const = default;
};

struct SimResult {
  double seconds = 0;
  std::vector<SimProgram> programs;
  std::vector<SimRank> ranks;
  std::vector<SimTime> times; ///< sorted by end
  /// By program and launch.
  std::vector<std::vector<Confidence>> confidences;
  /// DDL-roofline of the whole step (FasterMoE Eq. 1-6).
  struct Roofline {
    double peakFlops = 0;      ///< P of one device, for the dtype that most FLOPs of products have; 0 without products
    double computeSeconds = 0; ///< most FLOPs on a rank / P
    double linkSeconds = 0;    ///< CostModel::getLinkBound; the sum of beta * payload if there are many symmetric ranks
    double totalFlops = 0;     ///< for all ranks
    double getRatio() const { return linkSeconds > 0 ? computeSeconds / linkSeconds : 0; } ///< R_CC
  } roofline;
  /// Bytes that the mean rank sends to others in the whole step.
  struct Sent {
    double insideNodes = 0, betweenNodes = 0;
    double getSum() const { return insideNodes + betweenNodes; }
  } sent;
  std::vector<TokenReach> reach; ///< for dropless layers with experts on several ranks
  /// Bytes that a rank sends to each member in the ragged exchanges whose members differ, by index in `ranks` and by
  /// launch. Empty if no exchange is like that.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> pairBytes;
  Precision precision; ///< that of the cluster's profile
  uint64_t events = 0; ///< number of simulated ops, for benchmarks
  /// Iterations that are left out. The times that end in times[begin, end) happen `count` more times, each time
  /// `seconds` later, before the times that follow.
  struct Repetition {
    int64_t count = 0;        ///< 0 if nothing is left out
    int64_t microBatches = 1; ///< micro-batches of a period
    size_t begin = 0, end = 0;
    double seconds = 0, until = 0; ///< length of a period, and its end
  } repetition;

  const SimProgram &getProgram(const SimTime &time) const { return programs[ranks[time.rank].program]; }
  const SimLaunch &getLaunch(const SimTime &time) const { return getProgram(time).launches[time.launch]; }
  bool isWhole() const { return repetition.count == 0; }
  /// End of the last element of `times`. It is less than `seconds` if something is left out.
  double getEnd() const { return times.empty() ? 0 : times.back().end; }
};

/// Runs one step of `programs`, which together cover the model's ranks. One rank is simulated for each class of ranks
/// whose groups have the same shapes, if routing is even, the cost model has no contention, and there are no
/// stragglers. Otherwise all ranks are simulated. If the profile has processors, ranks share them as in the host
/// runtime. Fails if the cost model does, if the programs do not fit it or each other, if a trace does not fit them, if
/// counts cannot be followed or exceed the rows of a launch, or if the programs hang. An error names the launch.
llvm::Expected<SimResult> simulate(std::vector<SimProgram> programs, const CostModel &model, const SimOptions &options);

/// The same for a plan. If routing is even, only as many iterations of loops are simulated as it takes until they
/// repeat themselves in time. The others are left out: `seconds`, `roofline` and reports cover the whole step, but
/// `programs`, `times` and `confidences` a shorter one. Nothing is left out if devices share processors.
llvm::Expected<SimResult> simulate(ModuleOp plan, const CostModel &model, const SimOptions &options);

/// Returns the result with all iterations. `plan` is the plan that was simulated.
llvm::Expected<SimResult> writeOut(SimResult result, ModuleOp plan);

/// A lower bound of the seconds of simulate(), for any order and waits of the programs: the launches of a rank's
/// busiest stream, each alone. If devices share processors, also all launches on as many processors as can be busy. For
/// a cost model without contention. Fails as simulate() does.
llvm::Expected<double> getStepBound(llvm::ArrayRef<SimProgram> programs, const CostModel &model,
                                    const SimOptions &options);

/// Seconds of each launch on its program's first rank, alone and with even routing, without issue. By program and
/// launch. The programs cover all of the model's ranks. Fails as simulate() does.
llvm::Expected<std::vector<std::vector<double>>> getLaunchSeconds(llvm::ArrayRef<SimProgram> programs,
                                                                  const CostModel &model);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_SIMULATOR_H
