//===- PlanAnswer.h - how to run a model on a cluster, in three lines -*- C++ -*-===//
#ifndef MOE_REPORT_PLANANSWER_H
#define MOE_REPORT_PLANANSWER_H

#include "llvm/Support/raw_ostream.h"

#include "moe/Planner/JobLadder.h"
#include "moe/Planner/RoutedMemory.h"

namespace mlir::moe {

/// The question: a model on a cluster.
struct PlanQuestion {
  std::string model, cluster, device;
  std::string framework; ///< that runs the plan, with its dispatcher and graphs; empty: MoePlan's own runtime
  /// Dispatchers and graphs that were compared, and the seconds of their steps; 0: no plan was found.
  std::vector<std::pair<std::string, double>> trials{};
  std::string dispatcher{}, graph{};            ///< parts of the framework; empty for none
  std::string dtype, optimizer;                 ///< empty if the graph has its types, or without an optimizer
  std::string precision;                        ///< narrow types of products; empty if they compute in `dtype`
  int64_t parameters = 0, activeParameters = 0; ///< those of the model, and those that a token uses; 0: not known
  int64_t gpus = 0;
  int64_t sequence = 0;   ///< tokens; 0: the graph has its own
  double memoryLimit = 0; ///< bytes of a device; 0: not known
};

/// Parts of an answer besides the choice.
struct AnswerParts {
  /// The job that the user runs, and its changes; may be null.
  const JobLadder *ladder = nullptr;
  /// Memory of the choice and of the job by the rows that arrive; absent if the framework reserves rows.
  std::optional<RoutedMemory> memory = std::nullopt, jobMemory = std::nullopt;
  std::string explanation = "", frameworks = ""; ///< in JSON, or empty
};

/// Prints the question, then the framework, groups, step and memory of `chosen`. The groups have the names
/// of Megatron-LM: TP, PP, DP, EP, ETP (tensor parallelism of experts), CP, MBS (sequences of a micro-batch) and GA
/// (micro-batches of a step). Then follow the job that the user runs, and what each change of it gains.
void printAnswer(const PlanQuestion &question, const Candidate &chosen, const AnswerParts &parts,
                 llvm::raw_ostream &os);
/// Writes the same as a JSON object.
void writeAnswer(const PlanQuestion &question, const Candidate &chosen, const AnswerParts &parts,
                 llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANANSWER_H
