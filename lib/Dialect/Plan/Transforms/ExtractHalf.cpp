//===- ExtractHalf.cpp - the forward or the backward as a program ---------===//
//
// Both halves are cut from the same plan by the same rule. So they agree on the values between them, and keep its
// order.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANEXTRACTHALF
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {
class Halves {
public:
  explicit Halves(func::FuncOp program)
      : program(program), numInputs(program->getAttrOfType<IntegerAttr>(kInputsAttrName).getInt()) {}

  /// Fails after an error if the program has no backward that a caller can begin.
  LogicalResult find();
  void keepForward();
  void keepBackward();

private:
  StringRef getRole(unsigned argument) {
    auto role = program.getArgAttrOfType<StringAttr>(argument, moe::kRoleAttrName);
    return role ? role.getValue() : "";
  }
  bool isOutput(unsigned argument) { return argument >= numInputs && getRole(argument) != moe::kGradientRole; }
  LogicalResult check();
  LogicalResult findResiduals();
  void insertResidual(unsigned number, unsigned place);
  void replace(Value value, Value other);
  void erase(bool isForward);
  void finish(llvm::function_ref<bool(unsigned)> isKept);

  func::FuncOp program;
  unsigned numInputs;
  llvm::DenseSet<Operation *> forward;
  /// Buffers, and arguments that are outputs, in the order in which the backward first reads them.
  llvm::SetVector<Value> residuals;
};
} // namespace

LogicalResult Halves::check() {
  auto hasRole = [&](StringRef role) {
    return llvm::any_of(llvm::seq(program.getNumArguments()), [&](unsigned i) { return getRole(i) == role; });
  };
  if (!hasRole(moe::kCotangentRole) || !hasRole(moe::kGradientRole))
    return program.emitError() << "expected a program with a backward from the gradients of its outputs: with an "
                                  "argument of role '"
                               << moe::kCotangentRole << "' and a result of role '" << moe::kGradientRole << "'";
  if (!program.getOps<LoopOp>().empty())
    return program.emitError() << "expected one batch in the program but got a loop over several";
  for (auto buffer : program.getOps<BufferOp>())
    if (cast<SpaceAttr>(buffer.getType().getMemorySpace()).getValue() != Space::device)
      return buffer.emitOpError()
             << "expected no value on the host: what is kept between the forward and the backward is "
                "the caller's; choose a schedule that offloads nothing";
  return success();
}

LogicalResult Halves::find() {
  if (failed(check()))
    return failure();
  // Values that an output needs, found from the last launch on.
  llvm::DenseSet<Value> needed;
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (isOutput(i))
      needed.insert(program.getArgument(i));
  SmallVector<LaunchOp> launches(program.getOps<LaunchOp>());
  for (LaunchOp launch : llvm::reverse(launches)) {
    if (llvm::none_of(launch.getOutputs(), [&](Value output) { return needed.contains(getMemory(output)); }))
      continue;
    forward.insert(launch);
    for (Value input : launch.getInputs()) {
      Value memory = getMemory(input);
      needed.insert(memory);
      if (auto argument = dyn_cast<BlockArgument>(memory);
          argument && getRole(argument.getArgNumber()) == moe::kCotangentRole)
        return launch.emitOpError() << "expected an output to need no gradient of one, but " << launch.describe()
                                    << " reads one";
    }
  }
  return findResiduals();
}

LogicalResult Halves::findResiduals() {
  llvm::DenseSet<Value> made;
  for (LaunchOp launch : program.getOps<LaunchOp>())
    if (forward.contains(launch))
      for (Value output : launch.getOutputs())
        made.insert(getMemory(output));
  for (LaunchOp launch : program.getOps<LaunchOp>()) {
    if (forward.contains(launch))
      continue;
    for (Value output : launch.getOutputs())
      if (made.contains(getMemory(output)))
        return launch.emitOpError() << "expected the backward to leave what the forward made, but " << launch.describe()
                                    << " writes it";
    for (Value input : launch.getInputs())
      if (Value memory = getMemory(input); made.contains(memory))
        residuals.insert(memory);
  }
  return success();
}

/// Replaces uses of `value`, which is in another memory space than `other`.
void Halves::replace(Value value, Value other) {
  auto space = cast<MemRefType>(other.getType()).getMemorySpace();
  SmallVector<Operation *> open(value.getUsers());
  value.replaceAllUsesWith(other);
  while (!open.empty()) {
    auto view = dyn_cast<ViewOp>(open.pop_back_val());
    if (!view)
      continue;
    auto type = cast<MemRefType>(view.getType());
    view.getResult().setType(MemRefType::get(type.getShape(), type.getElementType(), AffineMap(), space));
    llvm::append_range(open, view->getUsers());
  }
}

/// Makes residual number `number` an argument. Several residuals may not be arguments yet.
void Halves::insertResidual(unsigned number, unsigned place) {
  Value residual = residuals[number];
  auto type = cast<MemRefType>(residual.getType());
  Builder builder(program.getContext());
  DictionaryAttr attributes;
  if (auto output = dyn_cast<BlockArgument>(residual))
    attributes = program.getArgAttrDict(output.getArgNumber());
  else
    attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(moe::kNameAttrName, builder.getStringAttr("residual" + Twine(number))),
         builder.getNamedAttr(moe::kRoleAttrName, builder.getStringAttr(moe::kResidualRole))});
  program.insertArgument(place, MemRefType::get(type.getShape(), type.getElementType()), attributes, residual.getLoc());
  replace(residual, program.getArgument(place));
}

void Halves::erase(bool isForward) {
  for (LaunchOp launch : llvm::make_early_inc_range(program.getOps<LaunchOp>()))
    if (forward.contains(launch) == isForward)
      launch.erase();
}

/// Removes the arguments that are not kept, and the results of plan-assign-streams and plan-assign-memory.
void Halves::finish(llvm::function_ref<bool(unsigned)> isKept) {
  SmallVector<Operation *> ops;
  for (Operation &op : program.front().without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops)) {
    bool isUnused = isa<BufferOp, ViewOp>(op) && op->use_empty();
    if (isUnused || isa<RecordOp, WaitOp>(op))
      op->erase();
    else if (auto buffer = dyn_cast<BufferOp>(op))
      buffer.removeOffsetAttr();
  }
  BitVector erased(program.getNumArguments());
  unsigned inputs = 0;
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    erased[i] = !isKept(i);
    inputs += i < numInputs && isKept(i);
  }
  program.eraseArguments(erased);
  program->removeAttr(kArenasAttrName);
  program->setAttr(kInputsAttrName, Builder(program.getContext()).getI64IntegerAttr(inputs));
}

void Halves::keepForward() {
  erase(/*isForward=*/false);
  // Residuals that are outputs are results already.
  for (unsigned number = 0; number < residuals.size(); ++number)
    if (!isa<BlockArgument>(residuals[number]))
      insertResidual(number, program.getNumArguments());
  finish([&](unsigned i) { return i < numInputs ? !program.getArgument(i).use_empty() : isOutput(i); });
}

void Halves::keepBackward() {
  erase(/*isForward=*/true);
  // Residuals follow the inputs, so that the numbers of outputs grow while they are inserted.
  for (unsigned number = 0; number < residuals.size(); ++number)
    insertResidual(number, numInputs + number);
  numInputs += residuals.size();
  finish([&](unsigned i) { return i < numInputs ? !program.getArgument(i).use_empty() : !isOutput(i); });
}

namespace {
struct PlanExtractHalf : plan::impl::PlanExtractHalfBase<PlanExtractHalf> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (isSubprogram(function))
      return;
    if (!function->hasAttr(kInputsAttrName) || (half != "forward" && half != "backward")) {
      function.emitError() << "expected a rank program with '" << kInputsAttrName
                           << "', and half=forward or half=backward";
      return signalPassFailure();
    }
    Halves halves(function);
    if (failed(halves.find()))
      return signalPassFailure();
    half == "forward" ? halves.keepForward() : halves.keepBackward();
  }
};
} // namespace
