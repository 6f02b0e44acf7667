//===- Explanation.cpp - why a schedule and groups were taken -------------===//
//
// visit() lists the fields of each struct. A FieldWriter makes a dictionary of them, a FieldReader reads it back.
//
//===----------------------------------------------------------------------===//
#include "moe/Planner/Explanation.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr StringLiteral kVerdicts[] = {"illegal", "same",      "bounded",   "dominated", "too large", "skipped",
                                              "slower",  "estimated", "simulated", "compiled",  "chosen"};

StringRef mlir::moe::getName(Verdict verdict) { return kVerdicts[static_cast<unsigned>(verdict)]; }

std::optional<Verdict> mlir::moe::parseVerdict(StringRef name) { return parseName<Verdict>(kVerdicts, name); }

std::string mlir::moe::describe(const Candidate &candidate) {
  std::string batch = candidate.batch > 1 ? ",batch=" + std::to_string(candidate.batch) : "";
  return describe(candidate.parallel) + batch;
}

static constexpr StringLiteral kObjectives[] = {"throughput", "step-time"};

StringRef mlir::moe::getName(Objective objective) { return kObjectives[static_cast<unsigned>(objective)]; }

std::optional<Objective> mlir::moe::parseObjective(StringRef name) { return parseName<Objective>(kObjectives, name); }

std::optional<Margin> mlir::moe::getMargin(const Choice &best, SmallVector<Choice> others) {
  if (others.empty())
    return std::nullopt;
  llvm::stable_sort(others, [](const Choice &a, const Choice &b) { return a.seconds < b.seconds; });
  auto getUncertainty = [&](const Choice &one) {
    return std::max(
        {best.errors.getDifference(one.errors) / best.seconds, best.pairError, best.estimateError, one.estimateError});
  };
  auto getMargin = [&](const Choice &one) { return one.seconds / best.seconds - 1; };
  const Choice &next = others.front();
  Margin margin{next.name, getMargin(next), getUncertainty(next), best.pairError > 0, {}};
  for (const Choice &one : others)
    if (getUncertainty(one) > 0 && getMargin(one) <= getUncertainty(one)) {
      margin.close.push_back(one.name);
      margin.uncertainty = std::max(margin.uncertainty, getUncertainty(one));
    }
  return margin;
}

const Candidate *GroupsExplanation::getChosen() const {
  auto chosen = llvm::find_if(candidates, [](const Candidate &one) { return one.verdict == Verdict::Chosen; });
  return chosen == candidates.end() ? nullptr : &*chosen;
}

SmallVector<const Candidate *> mlir::moe::sortBySeconds(ArrayRef<Candidate> candidates) {
  SmallVector<const Candidate *> sorted;
  for (const Candidate &candidate : candidates)
    if (candidate.estimate.seconds > 0)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted,
                    [](const Candidate *a, const Candidate *b) { return a->estimate.seconds < b->estimate.seconds; });
  return sorted;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// Parts of the seconds of a step.
template <class Parts, class Field> static void visitParts(Parts &parts, Field &field) {
  field("compute", parts.compute);
  field("exposed", parts.exposedCommunication);
  field("bubble", parts.bubble);
  field("other", parts.other);
  field("hidden", parts.hiddenCommunication);
}

/// The speed of a whole step.
template <class Speed, class Field> static void visitSpeed(Speed &speed, Field &field) {
  field("tokens_per_second", speed.tokensPerSecond);
  field("flops_per_second", speed.flopsPerSecond);
  field("mfu", speed.mfu);
}

namespace {
/// A schedule that 'auto' compares.
struct ScheduleFields {
  template <class One, class Field> static void visit(One &one, Field &field) {
    field("schedule", one.schedule);
    field("class", one.scheduleClass);
    field("order", one.order);
    field("verdict", one.verdict);
    field("reason", one.reason);
    field("bound", one.bound);
    field("seconds", one.estimate.seconds);
    visitParts(one.estimate.parts, field);
    field("flops", one.estimate.flops);
    field("bytes_sent", one.estimate.bytesSent);
    field("bytes_between_nodes", one.estimate.bytesBetweenNodes);
    field("memory", one.estimate.bytes);
    field("limit", one.estimate.limit);
    field("uncertainty", one.estimate.uncertainty);
    field("low", one.estimate.low);
    field("high", one.estimate.high);
    field("overlaps", one.overlaps);
    field("by_node", one.byNode);
    field("model_seconds", one.whole.seconds);
    field("model_memory", one.whole.bytes);
    field("model_exposed", one.whole.parts.exposedCommunication);
    field("model_hidden", one.whole.parts.hiddenCommunication);
    field("model_bubble", one.whole.parts.bubble);
    visitSpeed(one.speed, field);
  }
};

/// Groups that --parallel=auto compares.
struct GroupsFields {
  template <class One, class Field> static void visit(One &one, Field &field) {
    visitChoices([&](auto member, const ChoiceInfo &info) { field(info.getKey(), one.*member); });
    field("verdict", one.verdict);
    field("reason", one.reason);
    field("estimate", one.estimate.seconds);
    field("estimate_memory", one.estimate.bytes);
    field("seconds", one.whole.seconds);
    field("memory", one.whole.bytes);
    field("uncertainty", one.whole.uncertainty);
    field("low", one.whole.low);
    field("high", one.whole.high);
    visitParts(one.whole.parts, field);
    field("seconds_per_sequence", one.secondsPerSequence);
    visitSpeed(one.speed, field);
  }
};

/// A schedule that is compared because chunks or a strategy are open, or because a plan has to fit.
struct ComparedFields {
  template <class One, class Field> static void visit(One &one, Field &field) {
    field("schedule", one.schedule);
    field("verdict", one.verdict);
    field("seconds", one.whole.seconds);
    field("memory", one.whole.bytes);
    field("equation10", one.equation10);
  }
};

struct ChangeFields {
  template <class One, class Field> static void visit(One &one, Field &field) {
    field("change", one.change);
    field("schedule", one.schedule);
  }
};

struct MarginFields {
  template <class One, class Field> static void visit(One &one, Field &field) {
    field("next", one.next);
    field("margin", one.margin);
    field("uncertainty", one.uncertainty);
    field("is_measured", one.isMeasured);
    field("close", one.close);
  }
};

template <class One, class Field>
void visit(One &one, Field &field)
  requires requires { one.changes; }
{
  field.template list<ScheduleFields>("candidates", one.candidates);
  field.template list<ChangeFields>("changes", one.changes);
  field("applied", one.applied);
  field("bounded", one.bounded);
  field("simulated", one.simulated);
  field("complete", one.isComplete);
  field("bounds_close", one.isOpen);
  field.template part<MarginFields>("next", one.margin);
}

template <class One, class Field>
void visit(One &one, Field &field)
  requires requires { one.objective; }
{
  field.template list<GroupsFields>("candidates", one.candidates);
  field("objective", one.objective);
  field("complete", one.isComplete);
  field.template part<MarginFields>("next", one.margin);
  field("further_passes", one.furtherPasses);
  field("refused_load", one.refusedLoad);
  field("largest_load", one.largestLoad);
  field("times_without_overlap", one.timesWithoutOverlap);
  field.template list<GroupsFields>("with_less_room", one.withLessRoom);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Writes all fields, or only those that are not 0, false or empty.
class FieldWriter {
public:
  FieldWriter(MLIRContext *context, bool all) : builder(context), all(all) {}

  void operator()(StringRef name, const std::string &text) { add(name, text.empty(), builder.getStringAttr(text)); }
  void operator()(StringRef name, double number) { add(name, number == 0, builder.getF64FloatAttr(number)); }
  void operator()(StringRef name, int64_t number) { add(name, number == 0, builder.getI64IntegerAttr(number)); }
  void operator()(StringRef name, bool flag) { add(name, !flag, builder.getBoolAttr(flag)); }
  void operator()(StringRef name, const SmallVector<int64_t> &numbers) {
    add(name, numbers.empty(), builder.getI64ArrayAttr(numbers));
  }
  template <class Enum>
    requires std::is_enum_v<Enum>
  void operator()(StringRef name, Enum value) {
    // Only choices of a step have a default.
    constexpr bool hasDefault = std::is_same_v<Enum, Recompute> || std::is_same_v<Enum, PipelineOrder>;
    add(name, hasDefault && value == Enum(), builder.getStringAttr(getName(value)));
  }
  void operator()(StringRef name, ParallelAttr parallel) { (*this)(name, describe(parallel)); }
  template <class T> void operator()(StringRef name, const std::optional<T> &value) {
    if (value)
      (*this)(name, *value);
  }
  void operator()(StringRef name, const std::vector<std::string> &texts) {
    add(name, texts.empty(), builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(texts)));
  }
  template <class Fields, class T> void list(StringRef name, const std::vector<T> &values) {
    fields.append(name, getArray<Fields, T>(values, builder.getContext()));
  }
  template <class Fields, class T> void list(StringRef name, const std::optional<std::vector<T>> &values) {
    if (values)
      list<Fields>(name, *values);
  }
  /// Fields of the same dictionary, the first of which is `first`.
  template <class Fields, class T> void part(StringRef first, const std::optional<T> &value) {
    if (value)
      Fields::visit(*value, *this);
  }
  DictionaryAttr get() { return fields.getDictionary(builder.getContext()); }

  template <class Fields, class T> static ArrayAttr getArray(ArrayRef<T> values, MLIRContext *context) {
    SmallVector<Attribute> attributes;
    for (const T &one : values) {
      FieldWriter writer(context, /*all=*/false);
      Fields::visit(one, writer);
      attributes.push_back(writer.get());
    }
    return ArrayAttr::get(context, attributes);
  }

private:
  void add(StringRef name, bool isEmpty, Attribute value) {
    if (all || !isEmpty)
      fields.append(name, value);
  }

  Builder builder;
  bool all;
  NamedAttrList fields;
};

/// Reads the same fields, and leaves those that are missing, or of another type, as they are.
class FieldReader {
public:
  explicit FieldReader(DictionaryAttr fields) : fields(fields) {}

  void operator()(StringRef name, std::string &text) {
    if (auto attribute = fields.getAs<StringAttr>(name))
      text = attribute.str();
  }
  void operator()(StringRef name, double &number) {
    if (auto attribute = fields.getAs<FloatAttr>(name))
      number = attribute.getValueAsDouble();
  }
  void operator()(StringRef name, int64_t &number) {
    if (auto attribute = fields.getAs<IntegerAttr>(name))
      number = attribute.getInt();
  }
  void operator()(StringRef name, bool &flag) {
    flag = fields.getAs<BoolAttr>(name) == BoolAttr::get(getContext(), true);
  }
  void operator()(StringRef name, Verdict &verdict) { parse(name, verdict, parseVerdict); }
  void operator()(StringRef name, Objective &objective) { parse(name, objective, parseObjective); }
  void operator()(StringRef name, SmallVector<int64_t> &numbers) {
    if (auto attribute = fields.getAs<ArrayAttr>(name))
      for (auto number : attribute.getAsRange<IntegerAttr>())
        numbers.push_back(number.getInt());
  }
  void operator()(StringRef name, OrderPolicy &order) { parse(name, order, parseOrderPolicy); }
  void operator()(StringRef name, Recompute &recompute) { parse(name, recompute, parseRecompute); }
  void operator()(StringRef name, PipelineOrder &order) { parse(name, order, parsePipelineOrder); }
  void operator()(StringRef name, ParallelAttr &parallel) {
    if (auto attribute = fields.getAs<StringAttr>(name))
      parallel = parseParallel(getContext(), attribute.getValue()).value_or(ParallelAttr());
  }
  template <class T> void operator()(StringRef name, std::optional<T> &value) {
    if (fields.contains(name))
      (*this)(name, value.emplace());
  }
  void operator()(StringRef name, std::vector<std::string> &texts) {
    if (auto attribute = fields.getAs<ArrayAttr>(name))
      for (auto text : attribute.getAsRange<StringAttr>())
        texts.push_back(text.str());
  }
  template <class Fields, class T> void list(StringRef name, std::vector<T> &all) {
    if (auto attribute = fields.getAs<ArrayAttr>(name))
      all = getAll<Fields, T>(attribute);
  }
  template <class Fields, class T> void list(StringRef name, std::optional<std::vector<T>> &all) {
    if (fields.contains(name))
      list<Fields>(name, all.emplace());
  }
  template <class Fields, class T> void part(StringRef first, std::optional<T> &value) {
    if (fields.contains(first))
      Fields::visit(value.emplace(), *this);
  }

  template <class Fields, class T> static std::vector<T> getAll(ArrayAttr attributes) {
    std::vector<T> all;
    for (auto one : attributes.getAsRange<DictionaryAttr>()) {
      FieldReader reader(one);
      Fields::visit(all.emplace_back(), reader);
    }
    return all;
  }

private:
  MLIRContext *getContext() const { return fields.getContext(); }
  template <class T> void parse(StringRef name, T &value, std::optional<T> (*parser)(StringRef)) {
    if (auto attribute = fields.getAs<StringAttr>(name))
      value = parser(attribute.getValue()).value_or(value);
  }

  DictionaryAttr fields;
};
} // namespace

//===----------------------------------------------------------------------===//
// In the module
//===----------------------------------------------------------------------===//

template <class T> static DictionaryAttr write(MLIRContext *context, const T &explanation) {
  FieldWriter writer(context, /*all=*/true);
  visit(explanation, writer);
  return writer.get();
}

template <class T> static std::optional<T> read(ModuleOp plan, StringRef name) {
  auto fields = plan->getAttrOfType<DictionaryAttr>(name);
  if (!fields)
    return std::nullopt;
  T explanation;
  FieldReader reader(fields);
  visit(explanation, reader);
  return explanation;
}

DictionaryAttr mlir::moe::getFields(MLIRContext *context, const ScheduleExplanation &explanation) {
  return write(context, explanation);
}

DictionaryAttr mlir::moe::getFields(MLIRContext *context, const GroupsExplanation &explanation) {
  return write(context, explanation);
}

void mlir::moe::setExplanation(ModuleOp plan, const ScheduleExplanation &explanation) {
  plan->setAttr(plan::kExplainAttrName, write(plan.getContext(), explanation));
}

void mlir::moe::setExplanation(ModuleOp plan, const GroupsExplanation &explanation) {
  plan->setAttr(plan::kExplainParallelAttrName, write(plan.getContext(), explanation));
}

void mlir::moe::setCompared(ModuleOp plan, ArrayRef<Candidate> candidates) {
  plan->setAttr(plan::kSearchAttrName, FieldWriter::getArray<ComparedFields, Candidate>(candidates, plan.getContext()));
}

std::optional<ScheduleExplanation> mlir::moe::getScheduleExplanation(ModuleOp plan) {
  auto explanation = read<ScheduleExplanation>(plan, plan::kExplainAttrName);
  if (!explanation)
    return explanation;
  for (auto [index, one] : llvm::enumerate(explanation->candidates))
    if (one.verdict == Verdict::Chosen)
      explanation->best = index;
  return explanation;
}

std::optional<GroupsExplanation> mlir::moe::getGroupsExplanation(ModuleOp plan) {
  return read<GroupsExplanation>(plan, plan::kExplainParallelAttrName);
}

std::optional<std::vector<Candidate>> mlir::moe::getCompared(ModuleOp plan) {
  auto compared = plan->getAttrOfType<ArrayAttr>(plan::kSearchAttrName);
  if (!compared)
    return std::nullopt;
  return FieldReader::getAll<ComparedFields, Candidate>(compared);
}
