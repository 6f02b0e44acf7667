//===- ExplanationParallel.cpp - why groups were taken --------------------===//
#include "Explanation.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr size_t shown = 10;

static StringRef getText(DictionaryAttr one, StringRef name) { return one.getAs<StringAttr>(name).getValue(); }
static double getNumber(DictionaryAttr one, StringRef name) { return one.getAs<FloatAttr>(name).getValueAsDouble(); }
static int64_t getInteger(DictionaryAttr one, StringRef name) { return one.getAs<IntegerAttr>(name).getInt(); }

static void printFastest(ArrayRef<DictionaryAttr> all, ArrayRef<StringRef> close, llvm::raw_ostream &os) {
  SmallVector<DictionaryAttr> sorted;
  llvm::copy_if(all, std::back_inserter(sorted), [](DictionaryAttr one) {
    return llvm::is_contained({"estimated", "compiled", "chosen"}, getText(one, "verdict"));
  });
  auto getCost = [](DictionaryAttr one) {
    double step = getNumber(one, "seconds") > 0 ? getNumber(one, "seconds") : getNumber(one, "estimate");
    return getText(one, "objective") == "step-time" ? step : getNumber(one, "seconds_per_sequence");
  };
  llvm::stable_sort(sorted, [&](DictionaryAttr a, DictionaryAttr b) { return getCost(a) < getCost(b); });
  os << "\nthe best by " << getText(all.front(), "objective")
     << " (* taken, ~ within the profile's uncertainty; a step is one that was compiled as a whole, in ms, beside its "
        "estimate; tokens a second and "
        "device):\n"
     << "     groups                              batch  micro   estimate       step  memory GB  ms/sequence     "
        "tokens  "
        "schedule\n";
  for (DictionaryAttr one : ArrayRef(sorted).take_front(shown)) {
    double seconds = getNumber(one, "seconds");
    std::string step;
    llvm::raw_string_ostream text(step);
    if (seconds > 0)
      text << llvm::format("%.3f", seconds * 1e3);
    else
      text << "-";
    const char *near = llvm::is_contained(close, getText(one, "parallel")) ? "~" : " ";
    os << llvm::format("%3s%s %-34s %6lld %6lld %10.3f %10s %10.3f %12.4f %10.0f  ",
                       getText(one, "verdict") == "chosen" ? "*" : "", near, getText(one, "parallel").str().c_str(),
                       static_cast<long long>(getInteger(one, "batch")),
                       static_cast<long long>(getInteger(one, "micro_batches")), getNumber(one, "estimate") * 1e3,
                       text.str().c_str(), static_cast<double>(getInteger(one, "memory")) / 1e9,
                       getNumber(one, "seconds_per_sequence") * 1e3, getNumber(one, "tokens_per_second"))
       << getText(one, "schedule") << "\n";
  }
}

/// Reasons that hold for many once, with how many and the first.
static void printIllegal(ArrayRef<DictionaryAttr> all, llvm::raw_ostream &os) {
  std::vector<std::pair<StringRef, SmallVector<StringRef>>> reasons;
  for (DictionaryAttr one : all) {
    if (getText(one, "verdict") != "illegal")
      continue;
    StringRef reason = getText(one, "reason");
    auto same = llvm::find_if(reasons, [&](const auto &entry) { return entry.first == reason; });
    if (same == reasons.end())
      same = reasons.insert(same, {reason, {}});
    same->second.push_back(getText(one, "parallel"));
  }
  if (!reasons.empty())
    os << "\nillegal:\n";
  for (const auto &[reason, groups] : reasons) {
    os << "     " << groups.front();
    if (groups.size() > 1)
      os << " and " << groups.size() - 1 << " more";
    os << ":\n       " << reason << "\n";
  }
}

static void printTooLarge(ArrayRef<DictionaryAttr> all, llvm::raw_ostream &os) {
  SmallVector<DictionaryAttr> sorted;
  llvm::copy_if(all, std::back_inserter(sorted),
                [](DictionaryAttr one) { return getText(one, "verdict") == "too large"; });
  llvm::stable_sort(
      sorted, [](DictionaryAttr a, DictionaryAttr b) { return getInteger(a, "memory") < getInteger(b, "memory"); });
  if (!sorted.empty())
    os << "\ntoo large, the smallest first:\n";
  for (DictionaryAttr one : ArrayRef(sorted).take_front(shown))
    os << "     " << getText(one, "parallel") << ": " << getText(one, "reason") << "\n";
  if (sorted.size() > shown)
    os << "     and " << sorted.size() - shown << " more\n";
}

void mlir::moe::printParallelExplanation(ModuleOp plan, llvm::raw_ostream &os) {
  auto explanation = plan->getAttrOfType<DictionaryAttr>(plan::kExplainParallelAttrName);
  if (!explanation)
    return;
  auto all = llvm::to_vector(explanation.getAs<ArrayAttr>("candidates").getAsRange<DictionaryAttr>());
  auto count = [&](StringRef verdict) {
    return llvm::count_if(all, [&](DictionaryAttr one) { return getText(one, "verdict") == verdict; });
  };
  os << "groups chosen from: " << all.size() << ", of which " << count("illegal") << " illegal, " << count("too large")
     << " too large, " << count("slower") << " slower by a rough estimate\n";
  if (!explanation.getAs<BoolAttr>("complete").getValue()) {
    os << "the search was interrupted";
    if (auto left = count("skipped"))
      os << ", with " << left << " left";
    os << ": this is the best so far\n";
  }
  printFastest(all, getClose(explanation), os);
  printMargin(explanation, os);
  printIllegal(all, os);
  printTooLarge(all, os);
  os << "\n";
}
