//===- RuntimeCalls.cpp - launches against the runtime's calls ------------===//
#include "RuntimeCalls.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "moert/KernelTable.h"
#include "moert/moert.h"

using namespace mlir;
using namespace mlir::plan;
using moert::KernelInfo;
using moert::OperandType;

// Plans hold buffers and groups as constants in these layouts.
static_assert(sizeof(moert_buffer) == 88 && offsetof(moert_buffer, dims) == 24 && offsetof(moert_buffer, begin) == 80);
static_assert(sizeof(moert_group) == 24 && offsetof(moert_group, stride) == 16);
static_assert(MOERT_SPACE_DEVICE == static_cast<int>(Space::device) &&
              MOERT_SPACE_HOST_PINNED == static_cast<int>(Space::host_pinned));

FailureOr<SmallVector<Value>> mlir::plan::getCallOperands(LaunchOp launch, const KernelInfo &kernel) {
  ArrayRef<int64_t> absent = launch.getAbsentInputs();
  SmallVector<Value> operands;
  auto inputs = launch.getInputs().begin();
  for (size_t position = 0, end = launch.getInputs().size() + absent.size(); position < end; ++position)
    operands.push_back(llvm::is_contained(absent, position) ? Value() : *inputs++);
  auto outputs = llvm::count_if(ArrayRef(kernel.operands, kernel.operandCount),
                                [](const KernelInfo::Operand &operand) { return operand.isOutput; });
  size_t wanted = kernel.operandCount - outputs;
  if (operands.size() != wanted || launch.getOutputs().size() != static_cast<size_t>(outputs))
    return launch.emitOpError() << "expected '" << kernel.name << "' to have " << wanted << " inputs and " << outputs
                                << " outputs but got " << operands.size() << " and " << launch.getOutputs().size();
  llvm::append_range(operands, launch.getOutputs());
  return operands;
}

static bool hasType(Value value, OperandType type) {
  Type element = cast<MemRefType>(value.getType()).getElementType();
  switch (type) {
  case OperandType::Any:
    return true;
  case OperandType::I32:
    return element.isInteger(32);
  case OperandType::Real:
  case OperandType::Acc:
  case OperandType::Wide:
  case OperandType::Gradient:
  case OperandType::Float:
    return isa<FloatType>(element);
  }
  llvm_unreachable("no other type");
}

static LogicalResult verifyOperands(LaunchOp launch, const KernelInfo &kernel, ArrayRef<Value> operands) {
  for (auto [value, operand] : llvm::zip_first(operands, kernel.operands)) {
    bool isThere = value != nullptr;
    if (isThere ? hasType(value, operand.type) : operand.isOptional)
      continue;
    InFlightDiagnostic diagnostic = launch.emitOpError()
                                    << "expected '" << operand.name << "' of '" << kernel.name << "' to be ";
    if (!isThere)
      return diagnostic << "there";
    return diagnostic << (operand.type == OperandType::I32 ? "i32" : "of a floating type") << " but got "
                      << value.getType();
  }
  return success();
}

/// Checks that only the first output is in the memory of an input, and only of one that the call allows.
static LogicalResult verifyInPlace(LaunchOp launch, const KernelInfo &kernel, ArrayRef<Value> operands) {
  size_t inputs = operands.size() - launch.getOutputs().size();
  const KernelInfo::Operand *output = inputs < operands.size() ? &kernel.operands[inputs] : nullptr;
  int64_t number = 0;
  for (auto [position, value] : llvm::enumerate(operands.take_front(inputs)))
    if (value && launch.isInPlace(number++) && !(output && (output->aliases >> position & 1)))
      return launch.emitOpError() << "expected '" << kernel.name << "' not to write in the memory of '"
                                  << kernel.operands[position].name << "'";
  return success();
}

static LogicalResult verifyParams(LaunchOp launch, const KernelInfo &kernel) {
  SmallVector<Attribute> params;
  if (ArrayAttr given = launch.getParamsAttr())
    llvm::append_range(params, given);
  Builder builder(launch.getContext());
  auto isReal = [](Attribute param) { return isa<FloatAttr>(param); };
  size_t reals = llvm::count_if(params, isReal), ints = params.size() - reals + launch.getPeer().has_value();
  if (ints != kernel.ints || reals != kernel.reals ||
      !std::is_partitioned(params.begin(), params.end(), std::not_fn(isReal)))
    return launch.emitOpError() << "expected '" << kernel.name << "' to have " << unsigned{kernel.ints}
                                << " integers and then " << unsigned{kernel.reals} << " real numbers but got "
                                << builder.getArrayAttr(params);
  return success();
}

LogicalResult mlir::plan::verifyRuntimeCall(LaunchOp launch) {
  const KernelInfo *kernel = moert::findKernel(launch.getKernel());
  if (!kernel)
    return launch.emitOpError() << "expected a call of the runtime but got '" << launch.getKernel() << "'";
  if (launch.getGroup().has_value() != kernel->hasGroup)
    return launch.emitOpError() << "expected '" << kernel->name << "' " << (kernel->hasGroup ? "" : "not ")
                                << "to have a group";
  if (launch.getCollective() != (kernel->type != moert::CallType::Compute))
    return launch.emitOpError() << "expected '" << kernel->name << "' " << (launch.getCollective() ? "not " : "")
                                << "to be a collective";
  FailureOr<SmallVector<Value>> operands = getCallOperands(launch, *kernel);
  return success(succeeded(operands) && succeeded(verifyOperands(launch, *kernel, *operands)) &&
                 succeeded(verifyInPlace(launch, *kernel, *operands)) && succeeded(verifyParams(launch, *kernel)));
}
