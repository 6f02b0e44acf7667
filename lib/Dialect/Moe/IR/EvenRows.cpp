//===- EvenRows.cpp - rows that even routing gives ------------------------===//
#include "moe/Dialect/Moe/IR/EvenRows.h"

using namespace mlir;
using namespace mlir::moe;

static double getNumElements(Value value) {
  return static_cast<double>(cast<ShapedType>(value.getType()).getNumElements());
}
static double getDim(Value value, unsigned dim) {
  return static_cast<double>(cast<ShapedType>(value.getType()).getDimSize(dim));
}

namespace {
/// Computes the contents of an op's counts and choices from its rules and its inputs.
class EvenRule {
public:
  using Known = llvm::DenseMap<Value, double>;

  EvenRule(Operation *op, Value output, Known &rows, Known &tokens)
      : kernel(cast<MoeKernelOpInterface>(op)), inputs(kernel.getKernelInputs()), output(output), rows(rows),
        tokens(tokens) {}

  void apply(const counts::Route &rule) { setChoices(static_cast<double>(rule.tokens * rule.topK), output); }
  void apply(const counts::RouteInGroups &rule) { apply(counts::Route{rule.tokens, rule.topK}); }
  void apply(const counts::RouteNearHome &rule) { apply(counts::Route{rule.tokens, rule.topK}); }
  /// Other members have the same number of rows of each count.
  template <typename Rule> void apply(const Rule &rule) { copy(rule.input, 1); }
  void apply(const counts::SliceRows &rule) { copy(rule.input, 1 / getGroupSize()); }
  /// Flags count no rows. With even routing it is unknown which experts become shadows.
  void apply(const counts::ChooseShadows &) {}
  void apply(const counts::KeptChoices &rule) { setChoices(getNumElements(inputs[rule.choices]), output); }
  /// A shadow has as many choices as an expert.
  void apply(const counts::ShadowChoices &rule) {
    setChoices(getNumElements(inputs[rule.choices]), inputs[rule.shadows]);
  }
  void apply(const counts::MergedRows &rule) {
    TokenDraw draw = counts::getDraw(rule);
    auto experts = static_cast<double>(rule.experts * rule.holders) / (getGroupSize() * getDim(output, 1));
    llvm::SmallVector<double> chances(static_cast<size_t>(experts), draw.getEvenChance());
    rows[output] = getTokens(rule.choices) * draw.getChanceOfSome(/*first=*/0, chances);
  }
  void apply(const counts::SentChoices &rule) { tokens[output] = getTokens(rule.choices); }
  void apply(const counts::ArrivedChoices &rule) { tokens[output] = getTokens(rule.input) * getGroupSize(); }

private:
  double getGroupSize() { return static_cast<double>(kernel.getKernelGroup().getSize()); }
  /// Choices that no rank sent are those of the rank's own tokens.
  double getTokens(int64_t input) const {
    auto known = tokens.find(inputs[input]);
    return known == tokens.end() ? getDim(inputs[input], 0) : known->second;
  }
  void setChoices(double choices, Value counts) { rows[output] = choices / getNumElements(counts); }
  void copy(int64_t input, double factor) {
    if (auto known = rows.find(inputs[input]); known != rows.end())
      rows[output] = known->second * factor;
  }

  MoeKernelOpInterface kernel;
  SmallVector<Value> inputs;
  Value output;
  Known &rows, &tokens;
};
} // namespace

void EvenRows::visit(Operation *op) {
  auto counted = dyn_cast<MoeCountsOpInterface>(op);
  SmallVector<CountsRule> rules = counted ? counted.getCountsRules() : SmallVector<CountsRule>();
  for (const CountsRule &rule : rules) {
    EvenRule even(op, op->getResult(rule.output), rows, tokens);
    std::visit([&](const auto &how) { even.apply(how); }, rule.how);
  }
  if (!rules.empty() || op->getNumOperands() == 0)
    return;
  // Casts and parts have no rule. Each of their counts stands for the same number of rows, and a part has its part of
  // the tokens.
  Value from = op->getOperand(0);
  for (Value result : op->getResults()) {
    if (auto known = rows.find(from); known != rows.end())
      rows[result] = known->second;
    if (auto known = tokens.find(from); known != tokens.end())
      tokens[result] = known->second * getDim(result, 0) / getDim(from, 0);
  }
}

double EvenRows::getUse(Operation *op, const OpCost &cost) const {
  if (cost.raggedRows == 0)
    return 1;
  Value counts = cast<MoeKernelOpInterface>(op).getKernelInputs()[cost.countsInput];
  auto known = rows.find(counts);
  if (known == rows.end())
    return 1;
  return std::min(1.0, getNumElements(counts) * known->second / static_cast<double>(cost.getCountedRows()));
}
