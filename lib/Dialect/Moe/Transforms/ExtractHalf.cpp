//===- ExtractHalf.cpp - the forward or the backward as a program ---------===//
//
// Both halves are cut from the same program by the same rule, so that they agree on the residuals between them.
//
//===----------------------------------------------------------------------===//
#include "ExpertWay.h"

#include "llvm/ADT/SetVector.h"

#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEEXTRACTHALF
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
class Halves {
public:
  explicit Halves(func::FuncOp whole) : whole(whole), terminator(whole.front().getTerminator()) {}

  /// Fails after an error where the program has no backward that a caller can begin.
  LogicalResult find();
  void keepForward();
  void keepBackward();

private:
  bool isGradient(unsigned result) { return getRole(whole.getResultAttrDict(result)) == kGradientRole; }
  static StringRef getRole(DictionaryAttr attributes) {
    auto role = attributes ? attributes.getAs<StringAttr>(kRoleAttrName) : StringAttr();
    return role ? role.getValue() : "";
  }
  LogicalResult checkCotangents();
  void require(Value value, llvm::DenseSet<Operation *> &ops) const;
  void addResidual(Value value);
  DictionaryAttr getResidualAttrs(unsigned residual, bool isArgument);
  void setResults(ArrayRef<unsigned> kept);
  void removeUnused();

  func::FuncOp whole;
  Operation *terminator;
  llvm::DenseSet<Operation *> forward, backward;
  llvm::SetVector<Value> residuals;
};
} // namespace

/// `value`'s op and all that it needs.
void Halves::require(Value value, llvm::DenseSet<Operation *> &ops) const {
  SmallVector<Value> open = {value};
  while (!open.empty())
    if (Operation *op = open.pop_back_val().getDefiningOp(); op && ops.insert(op).second)
      llvm::append_range(open, op->getOperands());
}

LogicalResult Halves::checkCotangents() {
  llvm::DenseSet<Value> reached;
  for (BlockArgument argument : whole.getArguments())
    if (getRole(whole.getArgAttrDict(argument.getArgNumber())) == kCotangentRole)
      reached.insert(argument);
  if (reached.empty())
    return whole.emitError() << "expected a program with a backward from the gradients of its outputs, but it has no "
                                "argument of role '"
                             << kCotangentRole << "'";
  for (Operation &op : whole.front().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return reached.contains(operand); }))
      reached.insert(op.result_begin(), op.result_end());
  for (OpOperand &result : terminator->getOpOperands())
    if (!isGradient(result.getOperandNumber()) && reached.contains(result.get()))
      return whole.emitError() << "expected result " << result.getOperandNumber()
                               << " to need no gradient of an output: it is none itself";
  return success();
}

/// What the backward reads of the forward. An alias is made again of the memory that it is.
void Halves::addResidual(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !forward.contains(op))
    return;
  if (!isAlias(op))
    residuals.insert(value);
  else
    llvm::for_each(op->getOperands(), [&](Value operand) { addResidual(operand); });
}

LogicalResult Halves::find() {
  if (failed(checkCotangents()))
    return failure();
  for (OpOperand &result : terminator->getOpOperands())
    if (!isGradient(result.getOperandNumber()))
      require(result.get(), forward);
  for (OpOperand &result : terminator->getOpOperands())
    if (isGradient(result.getOperandNumber()))
      require(result.get(), backward);
  for (Operation *op : forward)
    backward.erase(op);
  // In program order, so that both halves number them alike.
  for (Operation &op : whole.front().without_terminator())
    if (backward.contains(&op))
      llvm::for_each(op.getOperands(), [&](Value operand) { addResidual(operand); });
  for (OpOperand &result : terminator->getOpOperands())
    if (isGradient(result.getOperandNumber()))
      addResidual(result.get());
  for (Value residual : residuals)
    if (isa<OffloadOp>(residual.getDefiningOp()))
      return residual.getDefiningOp()->emitOpError()
             << "expected no value on the host between the forward and the backward: the caller keeps these values; "
                "choose a schedule that offloads nothing";
  return success();
}

DictionaryAttr Halves::getResidualAttrs(unsigned residual, bool isArgument) {
  // One that is an output has its name.
  for (OpOperand &result : terminator->getOpOperands())
    if (isArgument && result.get() == residuals[residual])
      return whole.getResultAttrDict(result.getOperandNumber());
  Builder builder(whole.getContext());
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(kNameAttrName, builder.getStringAttr("residual" + Twine(residual))),
       builder.getNamedAttr(kRoleAttrName, builder.getStringAttr(kResidualRole))});
}

void Halves::setResults(ArrayRef<unsigned> kept) {
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Value> values;
  for (unsigned result : kept) {
    attributes.push_back(whole.getResultAttrDict(result));
    values.push_back(terminator->getOperand(result));
  }
  whole.removeResAttrsAttr();
  terminator->setOperands(values);
  whole.setFunctionType(
      FunctionType::get(whole.getContext(), whole.getArgumentTypes(), TypeRange(ValueRange(values))));
  whole.setAllResultAttrs(attributes);
}

void Halves::removeUnused() {
  SmallVector<Operation *> ops;
  for (Operation &op : whole.front().without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  BitVector unused(whole.getNumArguments());
  for (BlockArgument argument : whole.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  whole.eraseArguments(unused);
}

void Halves::keepForward() {
  SmallVector<unsigned> kept;
  for (unsigned result = 0; result < whole.getNumResults(); ++result)
    if (!isGradient(result))
      kept.push_back(result);
  SmallVector<std::pair<Value, DictionaryAttr>> added;
  for (auto [number, residual] : llvm::enumerate(residuals)) {
    residual.getDefiningOp()->removeAttr(kRingAttrName);
    if (llvm::none_of(kept, [&](unsigned result) { return terminator->getOperand(result) == residual; }))
      added.emplace_back(residual, getResidualAttrs(number, /*isArgument=*/false));
  }
  setResults(kept);
  for (auto [value, attributes] : added) {
    terminator->insertOperands(terminator->getNumOperands(), value);
    whole.insertResult(whole.getNumResults(), value.getType(), attributes);
  }
  removeUnused();
}

void Halves::keepBackward() {
  for (unsigned number = 0; number < residuals.size(); ++number) {
    Value residual = residuals[number];
    unsigned position = whole.getNumArguments();
    whole.insertArgument(position, residual.getType(), getResidualAttrs(number, /*isArgument=*/true),
                         residual.getLoc());
    residual.replaceAllUsesWith(whole.getArgument(position));
  }
  SmallVector<unsigned> kept;
  for (unsigned result = 0; result < whole.getNumResults(); ++result)
    if (isGradient(result))
      kept.push_back(result);
  setResults(kept);
  removeUnused();
}

namespace {
struct MoeExtractHalf : moe::impl::MoeExtractHalfBase<MoeExtractHalf> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock() || (half != "forward" && half != "backward")) {
      function.emitError() << "expected a body of one block, and half=forward or half=backward";
      return signalPassFailure();
    }
    Halves halves(function);
    if (failed(halves.find()))
      return signalPassFailure();
    half == "forward" ? halves.keepForward() : halves.keepBackward();
  }
};
} // namespace
