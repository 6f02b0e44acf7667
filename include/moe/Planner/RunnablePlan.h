//===- RunnablePlan.h - plans that a framework can run ----------*- C++ -*-===//
#ifndef MOE_PLANNER_RUNNABLEPLAN_H
#define MOE_PLANNER_RUNNABLEPLAN_H

#include "moe/Compiler/StepChoice.h"
#include "moe/Cost/PlanRules.h"

namespace mlir::moe {

/// Facts of a model on which rules may depend.
struct RuledModel {
  int64_t experts = 0; ///< number in its largest layer
  bool isDropless = false;
};

/// Why the framework of `rules` does not run `plan`; empty if it runs it. `open` are choices that are not decided yet.
std::string refusePlan(const PlanRules &rules, const StepChoice &plan, const RuledModel &model,
                       ArrayRef<StringRef> open = {});

} // namespace mlir::moe

#endif // MOE_PLANNER_RUNNABLEPLAN_H
