//===- Residuals.cpp - what the backward needs of the forward -------------===//
//
// The backward is first written as if every value of the forward were kept. Then each use of a value that is not kept
// gets another value: a copy fetched from the host, or the result of the same op on operands that are obtained in their
// own ways. Both stand just before the first use.
//
//===----------------------------------------------------------------------===//
#include "Residuals.h"

#include "ExpertPath.h"

using namespace mlir;
using namespace mlir::moe;

static Residual getResidual(Operation *op) {
  auto residual = op->getAttrOfType<ResidualAttr>(kResidualAttrName);
  return residual ? residual.getValue() : Residual::keep;
}

/// Gives values that are computed a second time a ring of their own.
static void setRingOfAgain(Operation *op, Operation *again) {
  if (auto ring = op->getAttrOfType<RingAttr>(kRingAttrName))
    again->setAttr(kRingAttrName, RingAttr::get(op->getContext(), (ring.getName() + ".again").str(), ring.getDepth()));
}

namespace {
class ResidualProvider {
public:
  explicit ResidualProvider(ArrayRef<Operation *> forward)
      : builder(forward.front()), forward(forward.begin(), forward.end()) {}

  /// Replaces the operands of `user`, an op of the backward.
  void provide(Operation *user);

private:
  /// Value that `user` takes for `value`.
  Value get(Value value, Operation *user);
  Value fetch(Value value, Operation *user);
  /// Whether a value is kept. An alias is kept if its operand is.
  bool isKept(Value value);
  void repeat(Operation *op, Operation *user);
  void leaveRing(Value value);

  OpBuilder builder;
  llvm::DenseSet<Operation *> forward;
  llvm::DenseMap<Value, Value> provided;
};
} // namespace

bool ResidualProvider::isKept(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !forward.contains(op))
    return true;
  return getResidual(op) == Residual::keep && (!isAlias(op) || isKept(op->getOperand(0)));
}

Value ResidualProvider::fetch(Value value, Operation *user) {
  Operation *op = value.getDefiningOp();
  builder.setInsertionPointAfter(op);
  auto offload = builder.create<OffloadOp>(op->getLoc(), value);
  builder.setInsertionPoint(user);
  auto fetch = builder.create<FetchOp>(getBackwardLoc(op), value.getType(), offload.getResult());
  for (Operation *copy : {offload.getOperation(), fetch.getOperation()})
    inheritPlace(op, copy);
  setRingOfAgain(op, fetch);
  return fetch;
}

void ResidualProvider::repeat(Operation *op, Operation *user) {
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, get(operand, user));
  builder.setInsertionPoint(user);
  Operation *again = builder.clone(*op, mapping);
  again->setLoc(getBackwardLoc(op));
  again->removeAttr(kResidualAttrName);
  again->setAttr(kRepeatedAttrName, builder.getUnitAttr());
  if (op->hasAttr(kPassAttrName) && user->hasAttr(kPassAttrName))
    again->setAttr(kPassAttrName, user->getAttr(kPassAttrName));
  setRingOfAgain(op, again);
  for (auto [before, after] : llvm::zip_equal(op->getResults(), again->getResults()))
    provided[before] = after;
}

/// Removes a value from its ring if the backward uses it directly. Neither it nor the value of which it is an alias can
/// give its place to another.
void ResidualProvider::leaveRing(Value value) {
  for (Operation *op = value.getDefiningOp(); op && forward.contains(op); op = op->getOperand(0).getDefiningOp()) {
    op->removeAttr(kRingAttrName);
    if (!isAlias(op))
      break;
  }
}

Value ResidualProvider::get(Value value, Operation *user) {
  if (Value known = provided.lookup(value))
    return known;
  if (isKept(value)) {
    leaveRing(value);
    return value;
  }
  Operation *op = value.getDefiningOp();
  if (getResidual(op) == Residual::offload)
    return provided[value] = fetch(value, user);
  repeat(op, user);
  return provided.lookup(value);
}

void ResidualProvider::provide(Operation *user) {
  for (OpOperand &operand : user->getOpOperands())
    if (Operation *op = operand.get().getDefiningOp(); op && forward.contains(op))
      operand.set(get(operand.get(), user));
}

void mlir::moe::provideResiduals(ArrayRef<Operation *> forward, Operation *terminator) {
  if (forward.empty())
    return;
  ResidualProvider provider(forward);
  // Ops that are inserted between two ops of the backward have their operands already.
  SmallVector<Operation *> backward;
  for (Operation *op = forward.back()->getNextNode(); op != terminator; op = op->getNextNode())
    backward.push_back(op);
  for (Operation *op : backward)
    provider.provide(op);
}
