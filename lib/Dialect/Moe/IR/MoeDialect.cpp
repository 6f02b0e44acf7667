//===- MoeDialect.cpp - the moe dialect -----------------------------------===//
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

/// Keywords of #moe.stage.
static constexpr StringLiteral kStageWorks[] = {"forward", "backward", "weights"};

static ParseResult parseStageWork(AsmParser &parser, StageWork &work) {
  SMLoc location = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  const StringLiteral *found = llvm::find(kStageWorks, name);
  if (found == std::end(kStageWorks))
    return parser.emitError(location) << "expected forward, backward or weights but got '" << name << "'";
  work = static_cast<StageWork>(found - kStageWorks);
  return success();
}
static void printStageWork(AsmPrinter &printer, StageWork work) { printer << kStageWorks[static_cast<size_t>(work)]; }

#include "moe/Dialect/Moe/IR/MoeDialect.cpp.inc"
#include "moe/Dialect/Moe/IR/MoeEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Moe/IR/MoeAttrs.cpp.inc"

void MoeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "moe/Dialect/Moe/IR/MoeAttrs.cpp.inc"
      >();
  registerMoeDialectOperations(this);
}

ParallelAttr mlir::moe::getParallel(Operation *op) {
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto parallel = scope->getAttrOfType<ParallelAttr>(kParallelAttrName))
      return parallel;
  op->emitError()
      << "expected a '" << kParallelAttrName
      << "' attribute on the module, e.g. #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>";
  return {};
}

ClusterRates mlir::moe::getClusterRates(Operation *op) {
  for (Operation *scope = op; scope; scope = scope->getParentOp())
    if (auto cluster = scope->getAttrOfType<ClusterAttr>(kClusterAttrName))
      return cluster.getRates();
  return {};
}

static StringRef getText(Attribute attribute) {
  auto text = dyn_cast_or_null<StringAttr>(attribute);
  return text ? text.getValue() : "";
}

StringRef mlir::moe::getRole(BlockArgument argument) {
  auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return getText(function.getArgAttr(argument.getArgNumber(), kRoleAttrName));
}

StringRef mlir::moe::getRole(OpOperand &result) {
  auto function = cast<FunctionOpInterface>(result.getOwner()->getParentOp());
  return getText(function.getResultAttr(result.getOperandNumber(), kRoleAttrName));
}

DictionaryAttr mlir::moe::describeValue(StringAttr name, StringRef role, Attribute layout, StringRef updates,
                                        ArrayAttr pieces) {
  Builder builder(name.getContext());
  NamedAttrList attributes;
  attributes.set(kNameAttrName, name);
  attributes.set(kRoleAttrName, builder.getStringAttr(role));
  if (layout)
    attributes.set(kLayoutAttrName, layout);
  if (!updates.empty())
    attributes.set(kUpdatesAttrName, builder.getStringAttr(updates));
  if (pieces)
    attributes.set(kPiecesAttrName, pieces);
  return attributes.getDictionary(name.getContext());
}

void mlir::moe::inheritUnit(Operation *from, Operation *to) {
  for (StringRef name : {kMicroBatchAttrName, kStageAttrName})
    if (Attribute unit = from->getAttr(name))
      to->setAttr(name, unit);
}

void mlir::moe::inheritPlace(Operation *from, Operation *to) {
  inheritUnit(from, to);
  for (StringRef name : {kChunkAttrName, kPassAttrName})
    if (Attribute place = from->getAttr(name))
      to->setAttr(name, place);
}

static LogicalResult verifyForm(Operation *op, StringRef name, Attribute value, StringRef form, bool fits) {
  if (fits)
    return success();
  return op->emitError() << "expected '" << name << "' " << form << " but got " << value;
}

namespace {
/// The form that the value of an attribute must have.
struct Form {
  StringRef name, text;
  bool (*fits)(Attribute value);
};
} // namespace

template <typename Kind> static bool is(Attribute value) { return isa<Kind>(value); }

static bool isPauseMp(Attribute value) {
  auto schedule = dyn_cast<StringAttr>(value);
  return schedule && (schedule == "s1" || schedule == "s2");
}

static bool isF64(Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  return number && number.getType().isF64();
}

static bool isPositive(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isInteger(64) && number.getInt() >= 1;
}

/// Whether `value` is a value of kPiecesAttrName.
static bool isPieces(Attribute value) {
  auto pieces = dyn_cast<ArrayAttr>(value);
  return pieces && !pieces.empty() && llvm::all_of(pieces, [](Attribute one) {
           auto piece = dyn_cast<DictionaryAttr>(one);
           if (!piece)
             return false;
           auto at = piece.getAs<IntegerAttr>("at");
           auto type = piece.getAs<TypeAttr>("type");
           return at && at.getType().isInteger(64) && at.getInt() >= 0 && type &&
                  isa<RankedTensorType>(type.getValue()) && piece.getAs<StringAttr>(kNameAttrName) &&
                  piece.getAs<StringAttr>(kRoleAttrName) && piece.getAs<LayoutAttr>(kLayoutAttrName);
         });
}

/// Attributes of the dialect's ops.
static constexpr Form kOpForms[] = {{kChunkAttrName, "to be a #moe.chunk", is<ChunkAttr>},
                                    {kMicroBatchAttrName, "to be a #moe.chunk", is<ChunkAttr>},
                                    {kStageAttrName, "to be a #moe.stage", is<StageAttr>},
                                    {kSecondsAttrName, "to be a number", is<FloatAttr>},
                                    {kRingAttrName, "to be a #moe.ring", is<RingAttr>},
                                    {kResidualAttrName, "to be a #moe<residual ..>", is<ResidualAttr>},
                                    {kLeftAttrName, "to be an array of names of passes", is<ArrayAttr>},
                                    {kRepeatedAttrName, "to be without a value", is<UnitAttr>},
                                    {kEachMicroBatchAttrName, "to be without a value", is<UnitAttr>},
                                    {kLabelAttrName, "to be a string", is<StringAttr>},
                                    {kPassAttrName, "to be a string", is<StringAttr>},
                                    {kPauseMpAttrName, "to be \"s1\" or \"s2\"", isPauseMp}};

/// Attributes of arguments and results, besides their layout.
static constexpr Form kValueForms[] = {{kUpdatedAttrName, "without a value", is<UnitAttr>},
                                       {kNoDecayAttrName, "without a value", is<UnitAttr>},
                                       {kNameAttrName, "to be a string", is<StringAttr>},
                                       {kRoleAttrName, "to be a string", is<StringAttr>},
                                       {kUpdatesAttrName, "to be a string", is<StringAttr>},
                                       {kFillAttrName, "to be an f64", isF64},
                                       {kBelowAttrName, "to be a positive i64", isPositive},
                                       {kSequenceAttrName, "to be a positive i64", isPositive},
                                       {kCountedBytesAttrName, "to be a positive i64", isPositive},
                                       {kSourceAttrName, "to be a dictionary", is<DictionaryAttr>},
                                       {kPiecesAttrName,
                                        "to be an array of dictionaries, at least one, with 'moe.name', 'moe.role', "
                                        "'moe.layout', 'at' (i64) and 'type' (a tensor)",
                                        isPieces}};

LogicalResult MoeDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  bool isModule = isa<ModuleOp>(op), isFunction = isa<FunctionOpInterface>(op);
  if (isFunction &&
      (name == kScheduleChoicesAttrName || (name == kPartBytesAttrName && isa<DenseF64ArrayAttr>(value)) ||
       (name == kStageDevicesAttrName && isa<DenseI64ArrayAttr>(value))))
    return success();
  if (isFunction && name == kRanksAttrName) {
    auto ranks = dyn_cast<DenseI64ArrayAttr>(value);
    return verifyForm(op, name, value, "to be array<i64: FIRST, NUMBER>",
                      ranks && ranks.size() == 2 && ranks[0] >= 0 && ranks[1] > 0);
  }
  if (name == kClusterAttrName)
    return verifyForm(op, name, value, "to be a #moe.cluster on a module", isModule && isa<ClusterAttr>(value));
  if (name == kDefaultMaxLoadAttrName)
    return verifyForm(op, name, value, "to be a number on a module", isModule && isa<FloatAttr>(value));
  if (name == kDTypeAttrName || name == kGradientDTypeAttrName) {
    auto type = dyn_cast<TypeAttr>(value);
    return verifyForm(op, name, value, "to be a floating-point type on a module",
                      isModule && type && isa<FloatType>(type.getValue()));
  }
  // Plans, which programs become, also have the unit of a pipeline on their ops.
  bool isUnit = name == kMicroBatchAttrName || name == kStageAttrName;
  const Form *form = llvm::find_if(kOpForms, [&](const Form &one) { return one.name == name; });
  if (form != std::end(kOpForms) && (isa<MoeDialect>(op->getDialect()) || (isUnit && !isModule && !isFunction)))
    return verifyForm(op, name, value, form->text, form->fits(value));
  if (name != kParallelAttrName)
    return op->emitError() << "expected '" << name << "' on an argument or result of a function only";
  if (!isModule && !isFunction)
    return op->emitError() << "expected '" << name << "' on a module or function only";
  return verifyForm(op, name, value, "to be a #moe.parallel", isa<ParallelAttr>(value));
}

/// Verifies an attribute of argument or result `index`.
static LogicalResult verifyValueAttribute(Operation *op, bool isResult, unsigned index, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitError() << "expected '" << name << "' on a function";
  Type type = isResult ? function.getResultTypes()[index] : function.getArgumentTypes()[index];
  if (name == kLayoutAttrName) {
    auto layout = dyn_cast<LayoutAttr>(attribute.getValue());
    auto shaped = dyn_cast<ShapedType>(type);
    if (!layout || !shaped || !shaped.hasRank())
      return op->emitError() << "expected '" << name << "' to be a #moe.layout of a ranked tensor or memref but got "
                             << attribute.getValue() << " on " << type;
    if (static_cast<int64_t>(layout.getDims().size()) != shaped.getRank())
      return op->emitError() << "expected '" << name << "' to have " << shaped.getRank() << " dimensions but got "
                             << layout;
    return success();
  }
  for (const Form &form : kValueForms)
    if (form.name == name)
      return verifyForm(op, name, attribute.getValue(), form.text, form.fits(attribute.getValue()));
  return op->emitError() << "expected 'moe.layout', 'moe.name', 'moe.role', 'moe.below', 'moe.sequence', 'moe.fill', "
                            "'moe.source', 'moe.no_decay', 'moe.pieces', 'moe.updates', 'moe.counted_bytes' or "
                            "'moe.updated' on a value but got '"
                         << name << "'";
}

LogicalResult MoeDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  return verifyValueAttribute(op, /*isResult=*/false, index, attribute);
}

LogicalResult MoeDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                      NamedAttribute attribute) {
  return verifyValueAttribute(op, /*isResult=*/true, index, attribute);
}
