//===- ExplanationParts.h - parts of explanations ---------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_EXPLANATIONPARTS_H
#define MOE_LIB_REPORT_EXPLANATIONPARTS_H

#include "llvm/Support/raw_ostream.h"

#include "moe/Planner/Explanation.h"

namespace mlir::moe {

/// Says whether predictions decide, or measurements have to. `isOpen`: something was not simulated that may be close.
void printMargin(const std::optional<Margin> &margin, bool isOpen, llvm::raw_ostream &os);
/// Whether `name` is as good as the choice, as far as the profile can tell.
bool isClose(const std::optional<Margin> &margin, const std::string &name);

void printGroups(const GroupsExplanation &explanation, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_EXPLANATIONPARTS_H
