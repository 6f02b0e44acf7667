//===- PlanDialect.cpp - the plan dialect ---------------------------------===//
#include "moe/Dialect/Plan/IR/PlanDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <charconv>

using namespace mlir;
using namespace mlir::plan;

#include "moe/Dialect/Plan/IR/PlanDialect.cpp.inc"
#include "moe/Dialect/Plan/IR/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Plan/IR/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "moe/Dialect/Plan/IR/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "moe/Dialect/Plan/IR/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "moe/Dialect/Plan/IR/PlanOps.cpp.inc"
      >();
}

bool mlir::plan::isBufferType(MemRefType type) {
  Type element = type.getElementType();
  return type.hasStaticShape() && type.getLayout().isIdentity() && type.getRank() <= 4 &&
         (element.isF32() || element.isF64() || element.isBF16() || element.isSignlessInteger(32));
}

int64_t mlir::plan::getByteSize(MemRefType type) { return type.getNumElements() * (type.getElementTypeBitWidth() / 8); }

//===----------------------------------------------------------------------===//
// CostAttr
//===----------------------------------------------------------------------===//

/// The shortest text that reads back as `value` and is a float literal of MLIR: "1.0e9".
static std::string formatDouble(double value) {
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::scientific).ptr;
  auto [mantissa, exponent] = StringRef(digits, end - digits).split('e');
  std::string text = mantissa.str();
  if (!mantissa.contains('.'))
    text += ".0";
  int power = 0;
  exponent.consume_front("+");
  exponent.getAsInteger(10, power);
  return power == 0 ? text : text + "e" + std::to_string(power);
}

Attribute CostAttr::parse(AsmParser &parser, Type) {
  double flops = 0;
  int64_t counts[4] = {};
  auto parseKey = [&](StringRef key) { return failed(parser.parseKeyword(key)) || failed(parser.parseEqual()); };
  if (parser.parseLess() || parseKey("flops") || parser.parseFloat(flops))
    return {};
  static constexpr StringLiteral keys[] = {"read", "written", "sent", "rows"};
  for (auto [key, count] : llvm::zip(keys, counts))
    if (parser.parseComma() || parseKey(key) || parser.parseInteger(count))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<CostAttr>(parser.getContext(), flops, counts[0], counts[1], counts[2], counts[3]);
}

void CostAttr::print(AsmPrinter &printer) const {
  printer << "<flops = " << formatDouble(getFlops()) << ", read = " << getRead() << ", written = " << getWritten()
          << ", sent = " << getSent() << ", rows = " << getRows() << ">";
}

LogicalResult CostAttr::verify(function_ref<InFlightDiagnostic()> emitError, llvm::APFloat flops, int64_t read,
                               int64_t written, int64_t sent, int64_t rows) {
  if (!flops.isFinite() || flops.isNegative() || read < 0 || written < 0 || sent < 0 || rows < 0)
    return emitError() << "expected costs to be finite and not negative";
  return success();
}

//===----------------------------------------------------------------------===//
// BufferOp
//===----------------------------------------------------------------------===//

LogicalResult BufferOp::verify() {
  auto type = cast<MemRefType>(getMemref().getType());
  if (!isBufferType(type)) // (C1)
    return emitOpError("expected a dense row-major memref of f32, f64, bf16 or i32 with rank 4 at most but got ")
           << type;
  if (!isa_and_nonnull<SpaceAttr>(type.getMemorySpace())) // (C1)
    return emitOpError("expected the memory space to be #plan<space device> or #plan<space host_pinned> but got ")
           << type;
  return success();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

static bool isParam(Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isSignlessInteger(64);
  auto number = dyn_cast<FloatAttr>(attribute);
  return number && number.getType().isF64();
}

LogicalResult LaunchOp::verify() {
  if (ArrayAttr params = getParamsAttr())
    for (Attribute param : params)
      if (!isParam(param)) // (C1)
        return emitOpError("expected params of i64 or f64 but got ") << param;
  if (getCollective() && !getGroup()) // (C2)
    return emitOpError("expected a collective to have a group");
  ArrayRef<int64_t> absent = getAbsentInputs();
  int64_t callInputs = getInputs().size() + absent.size();
  int64_t last = -1;
  for (int64_t position : absent) {
    if (position <= last || position >= callInputs) // (C3)
      return emitOpError("expected absent positions to rise strictly and be less than ")
             << callInputs << ", the number of the call's inputs, but got [" << absent << "]";
    last = position;
  }
  int64_t inputs = getInputs().size();
  for (int64_t input : getInPlaceInputs())
    if (input < 0 || input >= inputs) // (C3)
      return emitOpError("expected in_place to name one of ") << inputs << " inputs but got " << input;
  return success();
}

std::string LaunchOp::describe() {
  std::string text = ("'" + getKernel() + "'").str();
  if (auto label = getLabel())
    text += (" (" + *label + ")").str();
  if (auto group = getGroup())
    text += (" over '" + group->getName() + "'").str();
  if (auto stream = getStream())
    text += (" on '" + *stream + "'").str();
  return text;
}

StringRef LaunchOp::getStreamOrDefault() { return getStream().value_or(kComputeStream); }

ArrayRef<int64_t> LaunchOp::getAbsentInputs() { return getAbsent().value_or(ArrayRef<int64_t>()); }

ArrayRef<int64_t> LaunchOp::getInPlaceInputs() { return getInPlace().value_or(ArrayRef<int64_t>()); }

bool LaunchOp::isInPlace(unsigned input) { return llvm::is_contained(getInPlaceInputs(), static_cast<int64_t>(input)); }
