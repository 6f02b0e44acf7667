//===- EvenRows.cpp - rows that even routing gives ------------------------===//
#include "moe/Dialect/Moe/IR/EvenRows.h"

using namespace mlir;
using namespace mlir::moe;

static double getNumElements(Value value) {
  return static_cast<double>(cast<ShapedType>(value.getType()).getNumElements());
}

void EvenRows::visit(Operation *op) {
  if (auto counted = dyn_cast<MoeCountsOpInterface>(op))
    for (const CountsRule &rule : counted.getCountsRules())
      if (std::optional<int64_t> choices = rule.getNumChoices())
        rowsOfCount = static_cast<double>(*choices) / getNumElements(op->getResult(rule.output));
}

double EvenRows::getUse(Operation *op, const OpCost &cost) const {
  if (cost.raggedRows == 0)
    return 1;
  Value counts = cast<MoeKernelOpInterface>(op).getKernelInputs()[cost.countsInput];
  return std::min(1.0, getNumElements(counts) * rowsOfCount / static_cast<double>(cost.getCountedRows()));
}
