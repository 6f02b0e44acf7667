//===- PlanRules.h - plans that a framework can run -------------*- C++ -*-===//
//
// Rules of a framework's description about the choices of a plan. They compare texts, so that neither the description
// nor its reader knows what a choice means.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_PLANRULES_H
#define MOE_COST_PLANRULES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mlir::moe {

class JsonReader;

/// Names of the choices that rules may be about: sizes of groups, options of a step with '_' for '-', and two facts of
/// the model.
inline constexpr llvm::StringLiteral kPlanChoices[] = {"pp",
                                                       "dp",
                                                       "cp",
                                                       "mp",
                                                       "ep",
                                                       "esp",
                                                       "batch",
                                                       "zero",
                                                       "interleave",
                                                       "pipeline",
                                                       "schedule",
                                                       "micro_batches",
                                                       "recompute",
                                                       "side_by_side",
                                                       "ring_attention",
                                                       "sequence_parallel",
                                                       "experts",
                                                       "dropless"};

/// Returns the value of one of kPlanChoices as text; empty while it is not decided.
using PlanValues = llvm::function_ref<std::string(llvm::StringRef choice)>;

/// Values of a choice.
struct PlanCondition {
  std::string choice;              ///< one of kPlanChoices
  std::vector<std::string> values; ///< any of them; one of kPlanChoices stands for its value. Empty: numbers
  int64_t min = 0, max = std::numeric_limits<int64_t>::max();
  std::string multipleOf{}; ///< a choice whose value divides it; empty: any

  /// `undecided` is the answer while the choice is not decided.
  bool holds(PlanValues getValue, bool undecided) const;
};

/// A need of the framework, for some plans.
struct PlanRule {
  std::vector<PlanCondition> when;  ///< plans for which all of these hold; empty: all plans
  std::vector<PlanCondition> needs; ///< all of these
  std::string reason;
};

/// All that a framework needs. Without rules it runs all plans.
struct PlanRules {
  std::string framework;
  std::vector<PlanRule> rules;
  bool wholeBlocks = false; ///< whether stages of a pipeline begin between blocks

  /// The reason of the first rule that a plan breaks by what is decided; empty if the framework may run it.
  std::string refuse(PlanValues getValue) const;
  /// Whether rules for all plans allow `value` of a choice.
  bool allows(llvm::StringRef choice, llvm::StringRef value) const;
  /// The values that rules for all plans name for a choice: "1f1b or zb-v". Empty if there is no such rule.
  std::string listValues(llvm::StringRef choice) const;
};

/// Reads the list of rules at `key`; empty if the key is missing.
std::vector<PlanRule> readPlanRules(JsonReader &reader, llvm::StringRef key);

} // namespace mlir::moe

#endif // MOE_COST_PLANRULES_H
