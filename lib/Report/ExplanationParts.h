//===- ExplanationParts.h - parts of explanations ---------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_EXPLANATIONPARTS_H
#define MOE_LIB_REPORT_EXPLANATIONPARTS_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include "moe/Report/Explanations.h"

namespace mlir::moe {

/// Most rows of a table.
inline constexpr size_t kShownRows = 10;

/// Writes four digits and no unit: "30669", "487.2", "1.250"; a dash for 0, which is not known.
std::string formatFigure(double value);
/// Writes `part` of `whole` in per cent: "27.3"; a dash if `whole` is 0.
std::string formatShare(double part, double whole);

/// Prints whether predictions decide, or measurements have to. If `isOpen`, what was not simulated may be close.
void printMargin(const std::optional<Margin> &margin, bool isOpen, llvm::raw_ostream &os);
/// True if `name` is as good as the choice, as far as the profile can tell.
bool isClose(const std::optional<Margin> &margin, const std::string &name);

/// Prints whether a schedule that overlaps exchanges with computation is faster; `sorted` has the fastest first.
void printOverlap(ArrayRef<const Candidate *> sorted, llvm::raw_ostream &os);
/// Describes the default room for dropless rows, and the effect of more or less of it; empty without such room.
std::string describeRoom(const PlanExplanation &explanation);
/// Prints the conditions that would change the choice.
void printChanges(const ScheduleExplanation &explanation, llvm::raw_ostream &os);
/// Converts the fields of an explanation.
llvm::json::Value toJson(Attribute fields);

void printGroups(const GroupsExplanation &explanation, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_EXPLANATIONPARTS_H
