//===- VerifyTypes.cpp - reject plans that round more than asked ----------===//
//
// Runs cannot tell such rounding from the rounding that a plan of 16 bits has anyway. The table of calls says which
// operands have more bits, and which values may be rounded.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include "RuntimeCalls.h"
#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::moe {
#define GEN_PASS_DEF_PLANVERIFYTYPES
#include "moe/Conversion/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::plan;
using moert::KernelInfo;
using moert::OperandType;

/// The element type of a floating-point value; null for others, and for operands that are absent.
static FloatType getBufferFloatType(Value value) {
  return value ? dyn_cast<FloatType>(cast<MemRefType>(value.getType()).getElementType()) : FloatType();
}

/// Whether a call moves values without computing with them, except for sums over ranks.
static bool movesValues(const KernelInfo &kernel) {
  return kernel.type != moert::CallType::Compute ||
         (!kernel.operands[0].isOutput && kernel.operands[0].type == OperandType::Any);
}

/// Whether a call takes gradients of parameters, which may have fewer bits than these.
static bool isOptimizer(const KernelInfo &kernel) {
  return llvm::any_of(ArrayRef(kernel.operands, kernel.operandCount),
                      [](const KernelInfo::Operand &operand) { return operand.type == OperandType::Gradient; });
}

namespace {
/// Facts about the values in a buffer or an argument, by the calls so far.
struct History {
  bool mayRound = false;  ///< whether all are parameters, values that were cast, or their gradients
  bool isUpdated = false; ///< whether some come from an optimizer
  bool isRounded = false; ///< whether some were rounded, and since then only moved
  bool isSum = false;     ///< whether some were added up, and since then only moved
};

class TypeVerifier {
public:
  TypeVerifier(func::FuncOp program, FloatType dtype, FloatType gradients)
      : isSubprogram(plan::isSubprogram(program)), dtype(dtype), gradients(gradients) {}

  LogicalResult verify(LaunchOp launch);

private:
  LogicalResult verifyOperand(LaunchOp launch, const KernelInfo::Operand &operand, FloatType type);
  LogicalResult verifySum(LaunchOp launch);
  LogicalResult verifyCast(LaunchOp launch, FloatType from, FloatType to);
  History getHistory(Value value);
  /// Facts about the outputs of a call by its inputs.
  History combine(LaunchOp launch, const KernelInfo &kernel);
  void record(LaunchOp launch, const KernelInfo &kernel, History made);

  bool isSubprogram;
  FloatType dtype, gradients;
  /// By memory.
  llvm::DenseMap<Value, History> histories;
};
} // namespace

/// Requires the plan's type or that of its accumulators, and of these where the call has one.
LogicalResult TypeVerifier::verifyOperand(LaunchOp launch, const KernelInfo::Operand &operand, FloatType type) {
  Type wide = moe::getAccumulatorType(dtype);
  if (type != dtype && type != wide)
    return launch.emitOpError() << "has '" << operand.name << "' of " << type << " in a plan of " << dtype;
  if (operand.type == OperandType::Acc && type != wide)
    return launch.emitOpError() << "expected the accumulator '" << operand.name << "' to be " << wide
                                << " in a plan of " << dtype << " but got " << type;
  if (operand.type == OperandType::Wide && operand.isOutput && gradients && type.getWidth() < gradients.getWidth())
    return launch.emitOpError() << "expected the gradient '" << operand.name << "' to be " << gradients
                                << ", in which the plan sums gradients, but got " << type;
  return success();
}

/// Requires sums of gradients over data-parallel ranks in their type.
LogicalResult TypeVerifier::verifySum(LaunchOp launch) {
  if (!gradients || !launch.getGroup() || launch.getInputs().empty())
    return success();
  StringRef group = launch.getGroup()->getName();
  FloatType type = getBufferFloatType(launch.getInputs().front());
  if (!type || type.getWidth() >= gradients.getWidth() || !(group.starts_with("dp") || group.starts_with("edp")))
    return success();
  return launch.emitOpError() << "adds up values of " << type << " over '" << group
                              << "' in a plan whose gradients are summed in " << gradients;
}

LogicalResult TypeVerifier::verifyCast(LaunchOp launch, FloatType from, FloatType to) {
  History history = getHistory(launch.getInputs().front());
  if (to.getWidth() < from.getWidth() && !history.mayRound)
    return launch.emitOpError() << "rounds values of " << from << " to " << to
                                << ": expected parameters, values that were cast to " << from << ", or their gradients";
  if (to.getWidth() > from.getWidth() && (history.isRounded || history.isUpdated))
    return launch.emitOpError() << "gives values " << to << " again that were rounded to " << from
                                << " on their way: expected them to stay " << to;
  if (gradients && from.getWidth() < gradients.getWidth() && to.getWidth() > from.getWidth() && history.isSum)
    return launch.emitOpError() << "gives sums " << to << " that were added up in " << from
                                << ": expected gradients to be summed in " << gradients;
  return success();
}

/// Values of fewer bits are none that may be rounded. Arguments of subprograms may be anything.
History TypeVerifier::getHistory(Value value) {
  Value memory = getMemory(value);
  auto known = histories.find(memory);
  History history = known != histories.end() ? known->second : History{isSubprogram && isa<BlockArgument>(memory)};
  history.mayRound &= getBufferFloatType(value) != dtype;
  return history;
}

History TypeVerifier::combine(LaunchOp launch, const KernelInfo &kernel) {
  // Another program knows what a stage receives.
  History made{
      .mayRound = kernel.type == moert::CallType::PointToPoint, .isUpdated = isOptimizer(kernel), .isSum = kernel.adds};
  auto histories = llvm::map_to_vector(llvm::make_filter_range(launch.getInputs(), getBufferFloatType),
                                       [&](Value input) { return getHistory(input); });
  if (!histories.empty())
    made.mayRound = llvm::all_of(histories, [](History history) { return history.mayRound; });
  for (History history : histories) {
    made.isUpdated |= history.isUpdated;
    made.isRounded |= movesValues(kernel) && history.isRounded;
    made.isSum |= movesValues(kernel) && history.isSum;
  }
  return made;
}

void TypeVerifier::record(LaunchOp launch, const KernelInfo &kernel, History made) {
  bool isOfRoundable = made.mayRound;
  auto operands = ArrayRef(kernel.operands, kernel.operandCount).take_back(launch.getOutputs().size());
  for (auto [output, operand] : llvm::zip_equal(launch.getOutputs(), operands)) {
    made.mayRound = kernel.mayRound || (isOfRoundable && operand.type != OperandType::Acc);
    Value memory = getMemory(output);
    auto [known, isFirst] = histories.try_emplace(memory, made);
    if (isFirst)
      continue;
    // The other parts of the memory keep their values.
    History kept = memory == output ? made : known->second;
    known->second = {made.mayRound && kept.mayRound, made.isUpdated || kept.isUpdated, made.isRounded || kept.isRounded,
                     made.isSum || kept.isSum};
  }
}

/// Number of the operand whose type operand `number` must have, or -1. Expects the operands of a call, null if absent.
static int64_t getTypeOf(const KernelInfo &kernel, ArrayRef<Value> operands, int64_t number) {
  const KernelInfo::Operand &operand = kernel.operands[number];
  for (int64_t other = 0; other < number; ++other) {
    bool isAlike = operand.typeOf == other || (operand.aliases >> other & 1) ||
                   (operand.type == OperandType::Real && kernel.operands[other].type == OperandType::Real);
    if (operands[other] && isAlike)
      return other;
  }
  return -1;
}

/// Requires one type of operands that the table of calls says to have one.
static LogicalResult verifyEqualTypes(LaunchOp launch, const KernelInfo &kernel, ArrayRef<Value> operands) {
  auto getType = [&](int64_t number) { return cast<MemRefType>(operands[number].getType()).getElementType(); };
  for (int64_t number = 0, end = operands.size(); number < end; ++number)
    if (int64_t other = operands[number] ? getTypeOf(kernel, operands, number) : -1;
        other >= 0 && getType(number) != getType(other))
      return launch.emitOpError() << "expected '" << kernel.operands[number].name << "' to be " << getType(other)
                                  << ", as '" << kernel.operands[other].name << "' is, but got " << getType(number);
  return success();
}

LogicalResult TypeVerifier::verify(LaunchOp launch) {
  const KernelInfo *kernel = moert::findKernel(launch.getKernel());
  if (!kernel)
    return success();
  FailureOr<SmallVector<Value>> operands = getCallOperands(launch, *kernel);
  if (failed(operands) || failed(verifyEqualTypes(launch, *kernel, *operands)))
    return failure();
  bool fits = !kernel->adds || succeeded(verifySum(launch));
  History made = combine(launch, *kernel);
  for (auto [operand, value] : llvm::zip_first(*operands, kernel->operands))
    if (FloatType type = getBufferFloatType(operand))
      fits &= succeeded(verifyOperand(launch, value, type));
  if (kernel->operands[0].type == OperandType::Float) {
    FloatType from = getBufferFloatType(operands->front()), to = getBufferFloatType(operands->back());
    if (!from || !to)
      return launch.emitOpError() << "expected values of floating types";
    fits &= succeeded(verifyCast(launch, from, to));
    made.isRounded = to.getWidth() < from.getWidth();
    made.mayRound = to.getWidth() > from.getWidth();
  }
  record(launch, *kernel, made);
  return success(fits);
}

namespace {
struct PlanVerifyTypes : moe::impl::PlanVerifyTypesBase<PlanVerifyTypes> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto module = getOperation()->getParentOfType<ModuleOp>();
    auto given = module->getAttrOfType<TypeAttr>(moe::kDTypeAttrName),
         gradients = module->getAttrOfType<TypeAttr>(moe::kGradientDTypeAttrName);
    auto dtype = given ? cast<FloatType>(given.getValue()) : moe::getProgramType(getOperation());
    if (!dtype)
      return;
    TypeVerifier verifier(getOperation(), dtype, gradients ? cast<FloatType>(gradients.getValue()) : FloatType());
    bool fits = true;
    getOperation().walk([&](LaunchOp launch) { fits &= succeeded(verifier.verify(launch)); });
    if (!fits)
      signalPassFailure();
  }
};
} // namespace
