//===- Explanation.h - why a schedule was taken, in the module --*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_EXPLANATION_H
#define MOE_LIB_PLANNER_EXPLANATION_H

#include "mlir/IR/BuiltinAttributes.h"

#include "moe/Planner/AutoSchedule.h"

namespace mlir::moe {

/// What kExplainAttrName holds.
DictionaryAttr getExplanation(const AutoResult &result, MLIRContext *context);

/// What a choice is compared by.
struct Choice {
  std::string name;
  double seconds;     ///< or whatever else is to be small
  double uncertainty; ///< relative; 0 where it is not known
};
/// Adds how far `best` is from `others`, if there are any: `next`, the nearest of them, how much longer it takes
/// (`margin`, relative), the larger `uncertainty` of the two, and the names of those that are within it (`close`).
void addMargin(const Choice &best, SmallVector<Choice> others, NamedAttrList &fields, MLIRContext *context);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_EXPLANATION_H
