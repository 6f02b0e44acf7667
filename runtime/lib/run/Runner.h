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

/// What one op did in a step: sums over all ranks, means over the steps. Ragged ops by the rows really used.
struct OpTotals {
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  double bytesSent = 0;
  double collectives = 0;   ///< how often it ran, as a collective
  double bytesReceived = 0; ///< from other members, counted where they moved
};

struct RankTime {
  int64_t rank;
  moert_op_time time;
};

/// Of an arena, the largest of all ranks.
struct ArenaUse {
  int64_t planned = 0;
  int64_t measured = 0; ///< where the last byte ends that a call used
};

struct RunResult {
  int64_t ranks = 1;
  ArenaUse arenas[2];     ///< by moert_space
  int64_t otherBytes = 0; ///< of a process; see moert_world_other_memory
  std::vector<double> stepSeconds;
  std::vector<OpTotals> ops;     ///< of the first program, then those of the next, ..
  std::vector<double> rankFlops; ///< of a step
  std::vector<RankTime> lastStep;
  Tensors results;                          ///< global
  std::map<std::string, double> replicaGap; ///< by result: how far its replicas lie apart (2-norm)
  /// In exact arithmetic, of results whose replicas are not equal: each rank's part.
  std::map<std::string, std::map<int64_t, std::vector<char>>> unlike;
};

/// How a run differs from what the options say.
struct RunExtras {
  Perturbation perturbation = {};
  /// Gets all calls that ran, in exact arithmetic; see moert_observe.
  std::function<void(std::span<const moert_ran>)> observe = nullptr;
};

/// One world at work on the programs' values.
struct Runner {
  std::span<const Program> programs;
  const std::vector<Group> &groups;
  const Options &options;
  RunResult &result;
  WorldHandle world;
  std::span<const int64_t> ranks; ///< of this process
  std::vector<int64_t> everyone;  ///< all ranks: what one process reads of them all read alike
  Routing *routing = nullptr;     ///< what steps are to choose, or null
  bool reference = false;         ///< whether this is the reference, and
  int64_t nextStep = 0;           ///< which step comes next, for `routing`
  RunExtras extras = {};

  /// The plan, options and result must outlive the runner.
  static Runner of(const Plan &plan, bool reference, const Options &options, RunResult &result);
  Status create(const Plan &plan, bool reference);
  Status writeInputs(const Tensors &inputs);
  /// The result's step times grow by `steps`; what it has of ops is of these steps only. `progress` may be null.
  Status runSteps(int64_t steps, std::ostream *progress);
  Status readResults();
  /// One argument, or one argument or result, on all ranks whose programs have it.
  Status write(const std::string &name, const Tensor &tensor);
  Status read(const std::string &name, Tensor &tensor);
  /// Bytes of the part of an argument that a rank of this process has, from byte `begin` of the part on.
  Status writeRange(int64_t rank, int64_t index, int64_t begin, const void *data, int64_t bytes);
  Status readRange(int64_t rank, int64_t index, int64_t begin, void *data, int64_t bytes);
  /// Waits for all processes; the first error that one of them gives, in all.
  Status meet(const Status &own);
  /// Whether steps whose ops are timed differ from others, so that only the last one is.
  bool usesGraphs() const { return !reference && options.backend == "cuda" && !options.noGraph; }
  /// Whether no numbers are computed, of whose time nobody asks.
  bool isExact() const { return options.verify && options.wide == MOERT_WIDE_FIELD; }
  /// A step of which only the time is noted.
  Status runStep();

private:
  using Find = Program::Found (Program::*)(std::string_view) const;

  Status writeZeros();
  Status writePart(int64_t rank, int64_t index, const Value &value, const Tensor &tensor);
  Status read(const Value &value, Find find, Tensor &tensor, double &disagreement);
  Status readResult(const Value &value, Find find);
  Status addTimes();
  Status addRankTimes(int64_t rank, double &flops);
  Status readTimes(int64_t rank, std::vector<moert_op_time> &times);
  Status addMemory();
};

/// Fails where the memory of all ranks is not to be had: to say so before the inputs are made, which takes long where
/// they are large.
Status checkMemory(const Plan &plan, bool reference, const Options &options);

/// How many ops the programs before program `index` have: where its own begin in RunResult::ops.
size_t firstOp(std::span<const Program> programs, size_t index);

/// Runs `options.iters` steps, of the reference under --verify only the last. `progress` and `routing` may be null.
Status runPrograms(const Plan &plan, bool reference, const Options &options, const Tensors &inputs, Routing *routing,
                   std::ostream *progress, RunResult &result, const RunExtras &extras = {});

} // namespace moert::run

#endif // MOERT_RUN_RUNNER_H
