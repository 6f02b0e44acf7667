//===- Explanations.h - why a schedule and groups were taken ----*- C++ -*-===//
#ifndef MOE_REPORT_EXPLANATIONS_H
#define MOE_REPORT_EXPLANATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include "moe/Frameworks/Advice.h"
#include "moe/Simulator/Report.h"

namespace mlir::moe {

/// Why, of a module that has `plan.explain_parallel`: the ten best groups, and why others were not taken; of one that
/// has `plan.explain`: the ten fastest schedules, the best of each class, those that were rejected, whether overlap
/// pays, and what would change the choice.
void printExplanation(ModuleOp plan, llvm::raw_ostream &os);
/// The same as one JSON object.
void writeExplanation(ModuleOp plan, llvm::raw_ostream &os);
/// Why each of `plans` is as it is, as one page without any reference to the network: charts of groups and of
/// schedules, tables, and why others were not taken. `command` is the command line that asked for it; `header` names
/// model and cluster. `advice` may be null.
void writeExplanationPage(StringRef command, const SimHeader &header, ArrayRef<ModuleOp> plans,
                          const FrameworkAdvice *advice, llvm::raw_ostream &os);

/// For each framework, what runs the plan, what is left out of it, and what that costs.
void printAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os);
/// The same as a JSON list.
void writeAdvice(const FrameworkAdvice &advice, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_EXPLANATIONS_H
