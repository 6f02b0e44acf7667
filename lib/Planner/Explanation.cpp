//===- Explanation.cpp - why a schedule was taken, in the module ----------===//
#include "Explanation.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Fields that say something.
class Fields {
public:
  explicit Fields(MLIRContext *context) : builder(context) {}
  void set(StringRef name, StringRef text) {
    if (!text.empty())
      list.append(name, builder.getStringAttr(text));
  }
  void set(StringRef name, double number) {
    if (number != 0)
      list.append(name, builder.getF64FloatAttr(number));
  }
  void set(StringRef name, int64_t number) {
    if (number != 0)
      list.append(name, builder.getI64IntegerAttr(number));
  }
  void set(StringRef name, bool flag) {
    if (flag)
      list.append(name, builder.getBoolAttr(true));
  }
  DictionaryAttr get() { return list.getDictionary(builder.getContext()); }

private:
  Builder builder;
  NamedAttrList list;
};
} // namespace

static DictionaryAttr getFields(const AutoCandidate &candidate, MLIRContext *context) {
  Fields fields(context);
  fields.set("schedule", StringRef(candidate.schedule));
  fields.set("class", StringRef(candidate.scheduleClass));
  fields.set("order", candidate.order ? getName(*candidate.order) : "");
  fields.set("verdict", getName(candidate.verdict));
  fields.set("reason", StringRef(candidate.reason));
  fields.set("bound", candidate.bound);
  fields.set("seconds", candidate.seconds);
  fields.set("exposed", candidate.exposed);
  fields.set("flops", candidate.flops);
  fields.set("bytes_sent", candidate.bytesSent);
  fields.set("memory", candidate.memory);
  fields.set("limit", StringRef(candidate.limit));
  fields.set("uncertainty", candidate.uncertainty);
  fields.set("overlaps", candidate.overlaps);
  fields.set("model_seconds", candidate.modelSeconds);
  fields.set("model_memory", candidate.modelMemory);
  fields.set("tokens_per_second", candidate.tokensPerSecond);
  return fields.get();
}

void mlir::moe::addMargin(const Choice &best, SmallVector<Choice> others, NamedAttrList &fields, MLIRContext *context) {
  if (others.empty())
    return;
  llvm::stable_sort(others, [](const Choice &a, const Choice &b) { return a.seconds < b.seconds; });
  auto getUncertainty = [&](const Choice &one) { return std::max(best.uncertainty, one.uncertainty); };
  auto getMargin = [&](const Choice &one) { return one.seconds / best.seconds - 1; };
  SmallVector<StringRef> close;
  for (const Choice &one : others)
    if (getUncertainty(one) > 0 && getMargin(one) <= getUncertainty(one))
      close.push_back(one.name);
  Builder builder(context);
  const Choice &next = others.front();
  fields.append("next", builder.getStringAttr(next.name));
  fields.append("margin", builder.getF64FloatAttr(getMargin(next)));
  fields.append("uncertainty", builder.getF64FloatAttr(getUncertainty(next)));
  fields.append("close", builder.getStrArrayAttr(close));
}

/// How far the choice is from the others that fit.
static void addMarginOf(const AutoResult &result, NamedAttrList &all, MLIRContext *context) {
  const AutoCandidate &best = result.candidates[*result.best];
  auto getChoice = [&](const AutoCandidate &one) {
    // Of a model of many layers the whole decides, of those that were compiled so.
    return Choice{one.schedule, best.modelSeconds > 0 ? one.modelSeconds : one.seconds, one.uncertainty};
  };
  SmallVector<Choice> others;
  for (const AutoCandidate &one : result.candidates)
    if (one.verdict == Verdict::Simulated && getChoice(one).seconds > 0)
      others.push_back(getChoice(one));
  addMargin(getChoice(best), others, all, context);
  if (others.empty())
    return;
  // What was left out for its bound, or that of its class, takes at least as long as the choice, and maybe no longer.
  double limit = best.seconds * (1 + cast<FloatAttr>(all.get("uncertainty")).getValueAsDouble());
  bool isOpen = result.bounded > 0 && llvm::any_of(result.candidates, [&](const AutoCandidate &one) {
                  return &one != &best && one.bound >= best.seconds && one.bound <= limit;
                });
  all.append("bounds_close", BoolAttr::get(context, isOpen));
}

static ArrayAttr getFields(ArrayRef<AutoChange> changes, Builder &builder) {
  SmallVector<Attribute> all;
  for (const AutoChange &change : changes) {
    Fields fields(builder.getContext());
    fields.set("change", StringRef(change.change));
    fields.set("schedule", StringRef(change.schedule));
    all.push_back(fields.get());
  }
  return builder.getArrayAttr(all);
}

DictionaryAttr mlir::moe::getExplanation(const AutoResult &result, MLIRContext *context) {
  Builder builder(context);
  SmallVector<Attribute> candidates;
  for (const AutoCandidate &candidate : result.candidates)
    candidates.push_back(getFields(candidate, context));
  NamedAttrList all;
  all.append("candidates", builder.getArrayAttr(candidates));
  if (result.changes)
    all.append("changes", getFields(*result.changes, builder));
  all.append("applied", builder.getI64IntegerAttr(result.applied));
  all.append("bounded", builder.getI64IntegerAttr(result.bounded));
  all.append("simulated", builder.getI64IntegerAttr(result.simulated));
  all.append("complete", builder.getBoolAttr(result.isComplete));
  addMarginOf(result, all, context);
  return all.getDictionary(context);
}
