//===- PlanAnswer.h - how to run a model on a cluster, in three lines -*- C++ -*-===//
#ifndef MOE_REPORT_PLANANSWER_H
#define MOE_REPORT_PLANANSWER_H

#include "llvm/Support/raw_ostream.h"

#include "moe/Planner/Candidate.h"

namespace mlir::moe {

/// What was asked: a model on a cluster.
struct PlanQuestion {
  std::string model, cluster, device;
  std::string dtype, optimizer; ///< empty: the graph has its types; there is no optimizer
  int64_t gpus = 0;
  int64_t sequence = 0;   ///< tokens; 0: the graph has its own
  double memoryLimit = 0; ///< bytes of a device; 0: not known
};

/// What an answer has besides the choice.
struct AnswerParts {
  /// The job that the user runs, with its step; null: there is none.
  const Candidate *job = nullptr;
  std::string explanation, frameworks; ///< in JSON, or empty
};

/// The question, then groups, step and memory of `chosen`, a line each. The groups have the names of Megatron-LM: TP,
/// PP, DP, EP, ETP (tensor parallelism of experts), CP, MBS (sequences of a micro-batch) and GA (micro-batches of a
/// step). Then the job that the user runs, beside the choice; `job` may be null.
void printAnswer(const PlanQuestion &question, const Candidate &chosen, const Candidate *job, llvm::raw_ostream &os);
/// The same as a JSON object.
void writeAnswer(const PlanQuestion &question, const Candidate &chosen, const AnswerParts &parts,
                 llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANANSWER_H
