//===- ExplanationText.cpp - why a schedule was taken, in words -----------===//
#include "Explanation.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

using Candidate = ExplainedCandidate;

SmallVector<Candidate> mlir::moe::getCandidates(DictionaryAttr explanation) {
  SmallVector<Candidate> candidates;
  for (auto fields : explanation.getAs<ArrayAttr>("candidates").getAsRange<DictionaryAttr>())
    candidates.emplace_back(fields);
  return candidates;
}

SmallVector<Candidate> mlir::moe::sortSimulated(ArrayRef<Candidate> candidates) {
  SmallVector<Candidate> sorted;
  llvm::copy_if(candidates, std::back_inserter(sorted), [](const Candidate &one) { return one.isSimulated(); });
  llvm::stable_sort(
      sorted, [](const Candidate &a, const Candidate &b) { return a.getNumber("seconds") < b.getNumber("seconds"); });
  return sorted;
}

static constexpr double milli = 1e3, giga = 1e-9, mega = 1e-6;

static void printHead(llvm::raw_ostream &os) {
  os << "     schedule                            ms  exposed  memory GB      GFLOP   MB sent  busiest\n";
}

static void printCandidate(const Candidate &one, ArrayRef<StringRef> close, llvm::raw_ostream &os) {
  const char *taken = one.is("chosen") ? "*" : "",
             *near = llvm::is_contained(close, one.getText("schedule")) ? "~" : " ";
  os << llvm::format("%3s%s %-28s %9.3f %8.3f %10.3f %10.1f %9.1f  ", taken, near,
                     one.getText("schedule").str().c_str(), one.getNumber("seconds") * milli,
                     one.getNumber("exposed") * milli, one.getNumber("memory") * giga, one.getNumber("flops") * giga,
                     one.getNumber("bytes_sent") * mega)
     << one.getText("limit");
  if (StringRef order = one.getText("order"); !order.empty())
    os << "; --order=" << order;
  if (double whole = one.getNumber("model_seconds"); whole > 0)
    os << llvm::format("; the model %.3f ms", whole * milli);
  os << "\n";
}

SmallVector<StringRef> mlir::moe::getClose(DictionaryAttr explanation) {
  SmallVector<StringRef> close;
  if (auto names = explanation.getAs<ArrayAttr>("close"))
    llvm::append_range(close, names.getAsValueRange<StringAttr>());
  return close;
}

static void printThroughput(ArrayRef<Candidate> candidates, llvm::raw_ostream &os) {
  for (const Candidate &one : candidates)
    if (double tokens = one.getNumber("tokens_per_second"); one.is("chosen") && tokens > 0)
      os << llvm::format("\ntokens a second on each device: %.0f\n", tokens);
}

void mlir::moe::printMargin(DictionaryAttr explanation, llvm::raw_ostream &os) {
  auto next = explanation.getAs<StringAttr>("next");
  if (!next)
    return;
  auto getNumber = [&](StringRef name) { return explanation.getAs<FloatAttr>(name).getValueAsDouble(); };
  double uncertainty = getNumber("uncertainty");
  auto isOpen = explanation.getAs<BoolAttr>("bounds_close");
  SmallVector<StringRef> close = getClose(explanation);
  if (!close.empty()) {
    os << "\nthe choice is within the profile's uncertainty " << llvm::format("(%.1f%%) of ", 100 * uncertainty)
       << close.front();
    if (close.size() > 1)
      os << " and " << close.size() - 1 << " more";
    os << ": measure " << (close.size() > 1 ? "them" : "both") << "\n";
    return;
  }
  os << "\nthe next, " << next.getValue() << ", takes " << llvm::format("%.1f%% longer", 100 * getNumber("margin"));
  if (uncertainty == 0)
    os << "; the profile does not say how far its times may be off\n";
  else
    os << llvm::format(", more than the profile's uncertainty (%.1f%%): ", 100 * uncertainty)
       << (isOpen && isOpen.getValue() ? "the choice is clear but for what was not simulated (--exhaustive)\n"
                                       : "the choice is clear\n");
}

/// Reasons, each with what it holds for.
static void printRejected(ArrayRef<Candidate> candidates, llvm::raw_ostream &os) {
  std::vector<std::pair<std::string, SmallVector<StringRef>>> schedules;
  for (const Candidate &one : candidates) {
    std::string reason;
    llvm::raw_string_ostream text(reason);
    if (one.is("illegal"))
      text << one.getText("reason");
    else if (one.is("same"))
      text << "the plan of '" << one.getText("reason") << "'";
    else if (one.is("too large"))
      text << llvm::format("%.3f GB a rank, ", std::max(one.getNumber("memory"), one.getNumber("model_memory")) * giga)
           << one.getText("reason");
    else
      continue;
    auto same = llvm::find_if(schedules, [&](const auto &entry) { return entry.first == reason; });
    if (same == schedules.end())
      same = schedules.insert(same, {reason, {}});
    same->second.push_back(one.getText("schedule"));
  }
  if (!schedules.empty())
    os << "\nnot taken:\n";
  for (const auto &[reason, names] : schedules) {
    os << "     ";
    llvm::interleaveComma(names, os);
    os << ":\n       " << reason << "\n";
  }
}

static void printOverlap(ArrayRef<Candidate> sorted, llvm::raw_ostream &os) {
  auto find = [&](bool overlaps) {
    return llvm::find_if(sorted, [&](const Candidate &one) { return (one.getNumber("overlaps") != 0) == overlaps; });
  };
  const Candidate *with = find(true), *without = find(false);
  os << "\noverlap: ";
  if (with == sorted.end() || without == sorted.end()) {
    os << "nothing to compare\n";
    return;
  }
  double gain = without->getNumber("seconds") / with->getNumber("seconds") - 1;
  os << (gain > 0 ? "pays" : "does not pay") << llvm::format(": %.3f ms with it (", with->getNumber("seconds") * milli)
     << with->getText("schedule") << llvm::format("), %.3f ms without (", without->getNumber("seconds") * milli)
     << without->getText("schedule") << llvm::format("), %+.1f%%\n", 100 * gain);
}

static void printChanges(DictionaryAttr explanation, llvm::raw_ostream &os) {
  auto changes = explanation.getAs<ArrayAttr>("changes");
  os << "other choices: ";
  if (!changes)
    os << "not looked for";
  else if (changes.empty())
    os << "none with a network or devices up to 8 times as fast or slow, or 8 times as many or few tokens";
  else
    llvm::interleave(
        changes.getAsRange<DictionaryAttr>(), os,
        [&](DictionaryAttr change) {
          os << change.getAs<StringAttr>("schedule").getValue() << " with "
             << change.getAs<StringAttr>("change").getValue();
        },
        "; ");
  os << "\n";
}

void mlir::moe::printExplanation(ModuleOp plan, llvm::raw_ostream &os) {
  printParallelExplanation(plan, os);
  auto explanation = plan->getAttrOfType<DictionaryAttr>(plan::kExplainAttrName);
  if (!explanation)
    return;
  SmallVector<Candidate> candidates = getCandidates(explanation), sorted = sortSimulated(candidates);
  auto getCount = [&](StringRef name) { return explanation.getAs<IntegerAttr>(name).getInt(); };
  SmallVector<StringRef> close = getClose(explanation);
  if (auto batch = plan->getAttrOfType<IntegerAttr>(plan::kBatchAttrName))
    os << "== batch " << batch.getInt() << ", sequence "
       << plan->getAttrOfType<IntegerAttr>(plan::kSequenceAttrName).getInt() << " ==\n\n";
  os << "schedules chosen from: " << candidates.size() << ", of which " << getCount("applied") << " applied, "
     << getCount("simulated") << " simulated, " << getCount("bounded") << " too slow by their bound\n";
  if (!explanation.getAs<BoolAttr>("complete").getValue())
    os << "the search was interrupted: this is the best so far\n";
  os << "\nthe fastest (* taken, ~ within the profile's uncertainty):\n";
  printHead(os);
  for (const Candidate &one : ArrayRef(sorted).take_front(10))
    printCandidate(one, close, os);
  os << "\nthe best of each kind:\n";
  printHead(os);
  llvm::StringSet<> seen;
  for (const Candidate &one : sorted)
    if (seen.insert(one.getText("class")).second)
      printCandidate(one, close, os);
  printThroughput(candidates, os);
  printMargin(explanation, os);
  printRejected(candidates, os);
  printOverlap(sorted, os);
  printChanges(explanation, os);
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

static llvm::json::Value toJson(Attribute attribute) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    llvm::json::Object object;
    for (NamedAttribute field : dictionary)
      object[field.getName().getValue()] = toJson(field.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attribute))
    return llvm::json::Array(llvm::map_range(array, toJson));
  if (auto flag = dyn_cast<BoolAttr>(attribute))
    return flag.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  return cast<StringAttr>(attribute).getValue();
}

void mlir::moe::writeExplanation(ModuleOp plan, llvm::raw_ostream &os) {
  Attribute schedules = plan->getAttr(plan::kExplainAttrName), groups = plan->getAttr(plan::kExplainParallelAttrName);
  if (!schedules && !groups)
    return;
  llvm::json::Object object;
  if (schedules)
    object = std::move(*toJson(schedules).getAsObject());
  if (groups)
    object["groups"] = toJson(groups);
  os << llvm::formatv("{0:2}", llvm::json::Value(std::move(object))) << "\n";
}
