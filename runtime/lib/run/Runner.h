//===- Runner.h - running the programs of a plan on global values ---------===//
#ifndef MOERT_RUN_RUNNER_H
#define MOERT_RUN_RUNNER_H

#include "core/Instrument.h"
#include "run/Options.h"
#include "run/Plan.h"
#include "run/Routing.h"
#include "run/Tensor.h"

#include <functional>
#include <ostream>
#include <span>

namespace moert::run {

/// Totals of one op in a step: sums over all ranks, means over the steps. Rows of ragged ops are the used ones.
struct OpTotals {
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  double bytesSent = 0;
  double collectives = 0;   ///< number of runs as a collective
  double bytesReceived = 0; ///< bytes from other members, counted on the receiver
};

struct RankTime {
  int64_t rank;
  moert_op_time time;
};

/// Use of an arena, the largest of all ranks.
struct ArenaUse {
  int64_t planned = 0;
  int64_t measured = 0; ///< end of the last byte that a call used
};

struct RunResult {
  int64_t ranks = 1;
  ArenaUse arenas[2];     ///< arenas, by moert_space
  int64_t otherBytes = 0; ///< other memory of a process; see moert_world_other_memory
  std::vector<double> stepSeconds;
  std::vector<OpTotals> ops;     ///< totals of the first program's ops, then those of the next, ..
  std::vector<double> rankFlops; ///< FLOPs of each rank in a step
  std::vector<RankTime> lastStep;
  Tensors results;                          ///< global values
  std::map<std::string, double> replicaGap; ///< largest 2-norm of differences between replicas, by result
  /// Parts of each rank, in exact arithmetic, of results whose replicas differ.
  std::map<std::string, std::map<int64_t, std::vector<char>>> unlike;
};

/// Changes of a run that are not among the options.
struct RunExtras {
  Perturbation perturbation = {};
  /// Receives all calls that ran, in exact arithmetic; see moert_observe.
  std::function<void(std::span<const moert_ran>)> observe = nullptr;
  /// Decides on which side of a jump a derivative is taken; see moert_decide.
  std::function<bool(const moert_near &)> decide = nullptr;
};

/// Runs the programs of a plan in one world, and moves values in and out.
struct Runner {
  const Plan &plan;
  bool reference; ///< whether the programs are the reference
  const Options &options;
  RunResult &result;
  std::span<const Program> programs;
  const std::vector<Group> &groups;
  std::shared_ptr<moert_world> world;
  std::span<const int64_t> ranks; ///< ranks of this process
  std::vector<int64_t> everyone;  ///< all ranks; every process reads the values of all
  Routing *routing = nullptr;     ///< forced or kept choices, or null
  int64_t nextStep = 0;           ///< number of the next step, for `routing`
  RunExtras extras = {};

  /// The plan, options and result must outlive the runner.
  Runner(const Plan &plan, bool reference, const Options &options, RunResult &result)
      : plan(plan), reference(reference), options(options), result(result), programs(plan.programs(reference)),
        groups(plan.metadata.groups) {}
  Status create();
  Status writeInputs(const Tensors &inputs);
  /// Runs steps. Adds their times to the result, and replaces the totals of ops by those of these steps. `progress` may
  /// be null.
  Status runSteps(int64_t steps, std::ostream *progress);
  Status readResults();
  /// Write an argument, or read an argument or result, on all ranks whose programs have it.
  Status write(const std::string &name, const Tensor &tensor);
  Status read(const std::string &name, Tensor &tensor);
  /// Waits for all processes. Returns the first error of any of them in all.
  Status meet(const Status &own);
  /// Whether timing ops changes steps: graphs have no times of ops, and other steps would have two events for each op.
  /// Then only the last step is timed.
  bool isSlowedByTimes() const { return !reference && options.backend == "cuda"; }
  /// Whether the values are elements of a field, so that times do not matter.
  bool isExact() const { return options.verify && options.wide == MOERT_WIDE_FIELD; }
  /// Runs a step and notes its time only.
  Status runStep();

private:
  using Find = Program::Found (Program::*)(std::string_view) const;

  Status writeZeros();
  Status read(const Value &value, Find find, Tensor &tensor, double &disagreement);
  Status addRankTimes(int64_t rank, double &flops);
  Status addMemory();
};

/// Fails if there is not enough memory for all ranks, and for the inputs and `results` times the results in whole.
/// Called before large inputs are made, which takes long.
Status checkMemory(const Plan &plan, bool reference, const Options &options, int64_t results);

/// Number of ops of the programs before program `index`, which is where its ops begin in RunResult::ops.
size_t firstOp(std::span<const Program> programs, size_t index);

/// Runs `options.iters` steps. Under --verify, runs only the last one of the reference. `progress` and `routing` may be
/// null.
Status runPrograms(const Plan &plan, bool reference, const Options &options, const Tensors &inputs, Routing *routing,
                   std::ostream *progress, RunResult &result, const RunExtras &extras = {});

} // namespace moert::run

#endif // MOERT_RUN_RUNNER_H
