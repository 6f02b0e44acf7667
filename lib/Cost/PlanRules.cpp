//===- PlanRules.cpp - plans that a framework can run ---------------------===//
#include "moe/Cost/PlanRules.h"
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static llvm::SmallVector<StringRef> getPlanChoices() { return llvm::to_vector_of<StringRef>(kPlanChoices); }

/// Reads a list of texts, or a range of numbers.
static PlanCondition readCondition(JsonReader &reader, StringRef choice) {
  PlanCondition condition{choice.str(), {}};
  if (reader.find(choice)->getAsArray()) {
    condition.values = reader.getStrings(choice);
    return condition;
  }
  JsonReader range = reader.getObject(choice);
  condition.min = range.getInteger("min", 0, condition.max, 0);
  condition.max = range.getInteger("max", condition.min, condition.max, condition.max);
  if (range.find("multiple_of"))
    condition.multipleOf = kPlanChoices[range.getChoice("multiple_of", getPlanChoices())];
  range.refuseOtherKeys();
  return condition;
}

static std::vector<PlanCondition> readConditions(JsonReader &rule, StringRef key) {
  std::vector<PlanCondition> conditions;
  if (!rule.find(key))
    return conditions;
  JsonReader reader = rule.getObject(key);
  for (StringRef choice : kPlanChoices)
    if (reader.find(choice))
      conditions.push_back(readCondition(reader, choice));
  reader.refuseOtherKeys();
  return conditions;
}

std::vector<PlanRule> mlir::moe::readPlanRules(JsonReader &reader, StringRef key) {
  return readList<PlanRule>(reader, key, [](JsonReader &one, PlanRule &rule, llvm::ArrayRef<PlanRule>) {
    rule.when = readConditions(one, "when");
    rule.needs = readConditions(one, "needs");
    if (rule.needs.empty())
      one.fail("needs", "choices of a plan, such as {\"pipeline\": [\"1f1b\"]},");
    rule.reason = one.getString("reason");
  });
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

bool PlanCondition::holds(PlanValues getValue, bool undecided) const {
  std::string value = getValue(choice);
  if (value.empty())
    return undecided;
  if (!values.empty())
    return llvm::any_of(values, [&](StringRef one) {
      return (llvm::is_contained(kPlanChoices, one) ? getValue(one) : one.str()) == value;
    });
  int64_t number = 0, divisor = 1;
  if (StringRef(value).getAsInteger(10, number) || number < min || number > max)
    return false;
  return multipleOf.empty() || getValue(multipleOf).empty() ||
         (!StringRef(getValue(multipleOf)).getAsInteger(10, divisor) && number % divisor == 0);
}

std::string PlanRules::refuse(PlanValues getValue) const {
  auto isFor = [&](const PlanCondition &one) { return one.holds(getValue, /*undecided=*/false); };
  auto isMet = [&](const PlanCondition &one) { return one.holds(getValue, /*undecided=*/true); };
  for (const PlanRule &rule : rules)
    if (llvm::all_of(rule.when, isFor) && !llvm::all_of(rule.needs, isMet))
      return rule.reason;
  return "";
}

/// Calls `visit` with what rules for all plans need of `choice`.
static void visitNeeds(llvm::ArrayRef<PlanRule> rules, StringRef choice,
                       llvm::function_ref<void(const PlanCondition &)> visit) {
  for (const PlanRule &rule : rules)
    for (const PlanCondition &need : rule.needs)
      if (rule.when.empty() && need.choice == choice)
        visit(need);
}

bool PlanRules::allows(StringRef choice, StringRef value) const {
  bool isAllowed = true;
  visitNeeds(rules, choice,
             [&](const PlanCondition &need) { isAllowed &= need.holds([&](StringRef) { return value.str(); }, true); });
  return isAllowed;
}

std::string PlanRules::listValues(StringRef choice) const {
  std::string text;
  visitNeeds(rules, choice, [&](const PlanCondition &need) {
    if (text.empty())
      text = need.values.empty() ? std::to_string(need.min) + " to " + std::to_string(need.max)
                                 : llvm::join(need.values, ", ");
  });
  return text;
}
