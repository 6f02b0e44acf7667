//===- Simulator.h - a plan in virtual time ---------------------*- C++ -*-===//
//
// Executes the rank programs of a plan on a cluster that need not be there: streams, events, launches, kinds of work
// that slow each other, exchanges that wait for their last member. docs/CostModel.md says what is modelled and what is
// not.
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
  double slowdown = 1; ///< 1.2: everything its device computes or copies takes 1.2 times as long
};

class LaunchCosts;

/// What launches take does not depend on their order. Kept from one simulation to the next, of one program in several
/// orders on one model with one routing.
struct KnownCosts {
  /// Of launch i of the program that is simulated, its number in the program whose costs these are.
  llvm::ArrayRef<unsigned> order;
  std::map<int64_t, std::shared_ptr<const LaunchCosts>> ofIteration;
};

struct SimOptions {
  /// Null: even routing.
  const RoutingTrace *routing = nullptr;
  int64_t iteration = 0;
  std::vector<Straggler> stragglers;
  /// As moe-run --emulate-links does: each transfer takes at least SimLaunch::transferSeconds from its last member's
  /// arrival on, which keeps no processor busy. Where devices share processors only.
  bool emulateLinks = false;
  /// Every rank, even where one stands for all of its class.
  bool allRanks = false;
  /// Every iteration of a plan's loops, even where they repeat themselves in time.
  bool allIterations = false;
  /// Also SimResult::roofline, sent, confidences and reach, which are of the whole step.
  bool figures = true;
  KnownCosts *known = nullptr; ///< of a single program; null: nothing is known
};

/// When a launch ran on a rank.
struct SimTime {
  uint32_t rank;   ///< into SimResult::ranks
  uint32_t launch; ///< of the rank's program
  double begin = 0, end = 0;
  /// Into SimResult::times: what ended last among what it had to wait for; -1 where its own issue was last. It ended
  /// when this began, except where shared processors were busy with something that has no time of its own.
  int32_t cause = -1;
  int64_t rows = -1; ///< used by a ragged launch
  double flops = 0;  ///< by these rows
  double bytes = 0;  ///< moved, or sent by an exchange
  double alone = 0;  ///< seconds without anything beside it; 0 of an exchange
};

/// A rank that was simulated, for itself and others that do exactly the same.
struct SimRank {
  int64_t rank = 0;  ///< the first of them
  int64_t count = 1; ///< they are consecutive
  uint32_t program = 0;
};

/// How far the tokens of an MoE layer go: among the ranks that its rows are exchanged with, those that hold experts of
/// a token. Means over the tokens of all ranks.
struct TokenReach {
  std::string layer;
  int64_t numRanks = 1, numNodes = 1; ///< that the layer's experts are on; of nodes the most
  double ranks = 0, nodes = 0;        ///< with experts of a token
  double otherNodes = 0;              ///< of these, other nodes than the token's
  bool isCounted = false;             ///< token by token, from a trace with choices; else it is what is expected

  bool operator==(const TokenReach &) const = default;
};

struct SimResult {
  double seconds = 0;
  std::vector<SimProgram> programs;
  std::vector<SimRank> ranks;
  std::vector<SimTime> times; ///< in order of their ends
  /// By program and launch.
  std::vector<std::vector<Confidence>> confidences;
  /// DDL-roofline (FasterMoE Eq. 1-6) of the whole step.
  struct Roofline {
    double peakFlops = 0;      ///< P, of one device, at the dtype of most FLOPs of products; 0 where there are none
    double computeSeconds = 0; ///< most FLOPs on a rank / P
    double linkSeconds = 0;    ///< CostModel::getLinkBound; of many symmetric ranks the sum of beta * payload
    double totalFlops = 0;     ///< of all ranks
    double getRatio() const { return linkSeconds > 0 ? computeSeconds / linkSeconds : 0; } ///< R_CC
  } roofline;
  /// Bytes that a rank sends to others in the whole step, of the mean rank.
  struct Sent {
    double insideNodes = 0, betweenNodes = 0;
    double getSum() const { return insideNodes + betweenNodes; }
  } sent;
  std::vector<TokenReach> reach; ///< of the dropless layers whose experts are on several ranks
  uint64_t events = 0;           ///< simulated ops, for benchmarks
  /// Of a step some of whose iterations are left out: what ends in times[begin, end) happens `count` times more, each
  /// time `seconds` later, and then what ends after it.
  struct Repetition {
    int64_t count = 0;        ///< 0: nothing is left out
    int64_t microBatches = 1; ///< of a period
    size_t begin = 0, end = 0;
    double seconds = 0, until = 0; ///< of a period, and where it ends
  } repetition;

  bool isWhole() const { return repetition.count == 0; }
  /// When the last time ends. `seconds` is more where something is left out.
  double getEnd() const { return times.empty() ? 0 : times.back().end; }
};

/// Runs one step of `programs`, which together cover the model's ranks. Even routing on a cost model without contention
/// and without stragglers simulates one rank for each class of ranks whose groups have the same shapes; otherwise all.
/// Where the profile has processors, they are shared as in the host runtime. Fails where the cost model does, where the
/// programs do not fit it or each other, where a trace is not of them, where counts cannot be followed or exceed a
/// launch's rows, and where the programs hang (plan-verify says it better). An error names the launch.
llvm::Expected<SimResult> simulate(std::vector<SimProgram> programs, const CostModel &model, const SimOptions &options);

/// The same of a plan. Of loops with even routing, so few iterations are simulated as it takes until they repeat
/// themselves in time. The others are left out: `seconds`, `roofline` and reports are those of the whole step, and
/// `programs`, `times` and `confidences` those of a shorter one. Where devices share processors nothing is left out.
llvm::Expected<SimResult> simulate(ModuleOp plan, const CostModel &model, const SimOptions &options);

/// With all iterations in it. `plan` is the one that was simulated.
llvm::Expected<SimResult> writeOut(SimResult result, ModuleOp plan);

/// Less than simulate() says of these, whatever order the programs are in and whatever their waits: the seconds of a
/// rank's busiest stream, each of its launches alone. Where devices share processors also those of all launches, on as
/// many processors as can be busy. Of a cost model without contention. Fails as simulate() does.
llvm::Expected<double> getStepBound(llvm::ArrayRef<SimProgram> programs, const CostModel &model,
                                    const SimOptions &options);

/// By program and launch: the seconds that it takes the program's first rank alone, with even routing, issuing left
/// out. The programs are those of all of the model's ranks. Fails as simulate() does.
llvm::Expected<std::vector<std::vector<double>>> getLaunchSeconds(llvm::ArrayRef<SimProgram> programs,
                                                                  const CostModel &model);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_SIMULATOR_H
