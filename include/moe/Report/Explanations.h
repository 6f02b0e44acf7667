//===- Explanations.h - why a schedule and groups were taken ----*- C++ -*-===//
#ifndef MOE_REPORT_EXPLANATIONS_H
#define MOE_REPORT_EXPLANATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Frameworks/Advice.h"
#include "moe/Planner/Explanation.h"

namespace mlir::moe {

/// Reasons for one plan.
struct PlanExplanation {
  std::optional<GroupsExplanation> groups;
  std::optional<ScheduleExplanation> schedules;
  std::string defaultLoad;                          ///< describeDefaultMaxLoad; may be empty
  std::optional<int64_t> batch = {}, sequence = {}; ///< shape of the variant, if there are several
};
/// Reads the reasons from the attributes of a plan.
PlanExplanation getExplanation(ModuleOp plan);

/// Prints the ten best groups, and the reasons against others; then the ten fastest schedules, the best of each class,
/// the rejected ones, the gain of overlap, and the conditions that would change the choice.
void printExplanation(const PlanExplanation &explanation, llvm::raw_ostream &os);
/// Writes the explanation as one JSON object, or no output if there are no reasons.
void writeExplanation(const PlanExplanation &explanation, MLIRContext *context, llvm::raw_ostream &os);
/// Writes the reasons for `plans` as one page without any reference to the network: charts of groups and of schedules,
/// tables, and the reasons against others. `command` is the command line that asked for it. `advice` may be null.
void writeExplanationPage(StringRef command, StringRef model, const ClusterProfile &cluster,
                          ArrayRef<PlanExplanation> plans, const FrameworkAdvice *advice, MLIRContext *context,
                          llvm::raw_ostream &os);

/// Prints for each framework the arguments that run the plan, the parts that are left out, and their cost.
void printAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os);
/// Writes the same as a JSON list.
void writeAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_EXPLANATIONS_H
