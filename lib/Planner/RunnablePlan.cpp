//===- RunnablePlan.cpp - plans that a framework can run ------------------===//
#include "moe/Planner/RunnablePlan.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::moe;

/// The size of a group; absent if `name` is none.
static std::optional<int64_t> getGroupSize(ParallelAttr all, StringRef name) {
  return llvm::StringSwitch<std::optional<int64_t>>(name)
      .Case("pp", all.getPp())
      .Case("dp", all.getDp())
      .Case("cp", all.getCp())
      .Case("mp", all.getMp())
      .Case("ep", all.getEp())
      .Case("esp", all.getEsp())
      .Default(std::nullopt);
}

std::string mlir::moe::refusePlan(const PlanRules &rules, const StepChoice &plan, const RuledModel &model,
                                  ArrayRef<StringRef> open) {
  return rules.refuse([&](StringRef choice) -> std::string {
    if (llvm::is_contained(open, choice))
      return "";
    if (choice == "experts")
      return getText(model.experts);
    if (choice == "dropless")
      return getText(model.isDropless);
    if (std::optional<int64_t> size = getGroupSize(plan.parallel, choice))
      return getText(*size);
    std::string value;
    visitChoices([&](auto member, const ChoiceInfo &info) {
      if (info.getKey() == choice)
        value = getText(plan.*member);
    });
    return value;
  });
}
