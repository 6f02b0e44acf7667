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

static bool isPauseMp(Attribute value) {
  auto schedule = dyn_cast<StringAttr>(value);
  return schedule && (schedule == "s1" || schedule == "s2");
}

/// Whether `name` is an attribute of the dialect's ops. If its value is wrong, `form` becomes the expected form.
static bool isOpAttribute(StringRef name, Attribute value, StringRef &form) {
  if (name == kChunkAttrName || name == kMicroBatchAttrName)
    form = isa<ChunkAttr>(value) ? "" : "a #moe.chunk";
  else if (name == kStageAttrName)
    form = isa<StageAttr>(value) ? "" : "a #moe.stage";
  else if (name == kSecondsAttrName)
    form = isa<FloatAttr>(value) ? "" : "a number";
  else if (name == kRingAttrName)
    form = isa<RingAttr>(value) ? "" : "a #moe.ring";
  else if (name == kResidualAttrName)
    form = isa<ResidualAttr>(value) ? "" : "a #moe<residual ..>";
  else if (name == kLeftAttrName)
    form = isa<ArrayAttr>(value) ? "" : "an array of names of passes";
  else if (name == kRepeatedAttrName || name == kEachMicroBatchAttrName)
    form = isa<UnitAttr>(value) ? "" : "without a value";
  else if (name == kLabelAttrName || name == kPassAttrName)
    form = isa<StringAttr>(value) ? "" : "a string";
  else if (name == kPauseMpAttrName)
    form = isPauseMp(value) ? "" : "\"s1\" or \"s2\"";
  else
    return false;
  return true;
}

LogicalResult MoeDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kScheduleChoicesAttrName && isa<FunctionOpInterface>(op))
    return success();
  if (attribute.getName() == kPartBytesAttrName && isa<FunctionOpInterface>(op) &&
      isa<DenseF64ArrayAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() == kStageDevicesAttrName && isa<FunctionOpInterface>(op) &&
      isa<DenseI64ArrayAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() == kRanksAttrName && isa<FunctionOpInterface>(op)) {
    auto ranks = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (ranks && ranks.size() == 2 && ranks[0] >= 0 && ranks[1] > 0)
      return success();
    return op->emitError() << "expected '" << kRanksAttrName << "' to be array<i64: FIRST, NUMBER> but got "
                           << attribute.getValue();
  }
  if (attribute.getName() == kClusterAttrName) {
    if (isa<ModuleOp>(op) && isa<ClusterAttr>(attribute.getValue()))
      return success();
    return op->emitError() << "expected '" << kClusterAttrName << "' to be a #moe.cluster on a module but got "
                           << attribute.getValue();
  }
  if (attribute.getName() == kDefaultMaxLoadAttrName) {
    if (isa<ModuleOp>(op) && isa<FloatAttr>(attribute.getValue()))
      return success();
    return op->emitError() << "expected '" << kDefaultMaxLoadAttrName << "' to be a number on a module but got "
                           << attribute.getValue();
  }
  StringRef form;
  // Plans, which programs become, also have the unit of a pipeline on their ops.
  bool isUnit = attribute.getName() == kMicroBatchAttrName || attribute.getName() == kStageAttrName;
  bool isOfOp = isa<MoeDialect>(op->getDialect()) || (isUnit && !isa<ModuleOp, FunctionOpInterface>(op));
  if (isOfOp && isOpAttribute(attribute.getName(), attribute.getValue(), form)) {
    if (!form.empty())
      return op->emitError() << "expected '" << attribute.getName().getValue() << "' to be " << form << " but got "
                             << attribute.getValue();
    return success();
  }
  if (attribute.getName() != kParallelAttrName)
    return op->emitError() << "expected '" << attribute.getName().getValue()
                           << "' on an argument or result of a function only";
  if (!isa<ModuleOp, FunctionOpInterface>(op))
    return op->emitError() << "expected '" << kParallelAttrName << "' on a module or function only";
  if (!isa<ParallelAttr>(attribute.getValue()))
    return op->emitError() << "expected '" << kParallelAttrName << "' to be a #moe.parallel but got "
                           << attribute.getValue();
  return success();
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

/// Verifies an attribute of an argument or result of type `type`.
static LogicalResult verifyValueAttribute(Operation *op, Type type, NamedAttribute attribute) {
  StringRef name = attribute.getName();
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
  if (name == kUpdatedAttrName || name == kNoDecayAttrName) {
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitError() << "expected '" << name << "' without a value but got " << attribute.getValue();
    return success();
  }
  if (name == kNameAttrName || name == kRoleAttrName || name == kUpdatesAttrName) {
    if (!isa<StringAttr>(attribute.getValue()))
      return op->emitError() << "expected '" << name << "' to be a string but got " << attribute.getValue();
    return success();
  }
  if (name == kFillAttrName) {
    if (auto fill = dyn_cast<FloatAttr>(attribute.getValue()); !fill || !fill.getType().isF64())
      return op->emitError() << "expected '" << name << "' to be an f64 but got " << attribute.getValue();
    return success();
  }
  if (name == kBelowAttrName || name == kSequenceAttrName || name == kCountedBytesAttrName) {
    auto below = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!below || !below.getType().isInteger(64) || below.getInt() < 1)
      return op->emitError() << "expected '" << name << "' to be a positive i64 but got " << attribute.getValue();
    return success();
  }
  if (name == kSourceAttrName) {
    if (!isa<DictionaryAttr>(attribute.getValue()))
      return op->emitError() << "expected '" << name << "' to be a dictionary but got " << attribute.getValue();
    return success();
  }
  if (name == kPiecesAttrName) {
    if (!isPieces(attribute.getValue()))
      return op->emitError() << "expected '" << name
                             << "' to be an array of dictionaries, at least one, with 'moe.name', "
                                "'moe.role', 'moe.layout', 'at' (i64) and 'type' (a tensor) but got "
                             << attribute.getValue();
    return success();
  }
  return op->emitError() << "expected 'moe.layout', 'moe.name', 'moe.role', 'moe.below', 'moe.sequence', 'moe.fill', "
                            "'moe.source', 'moe.no_decay', 'moe.pieces', 'moe.updates', 'moe.counted_bytes' or "
                            "'moe.updated' on a value but got '"
                         << name << "'";
}

LogicalResult MoeDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitError() << "expected '" << attribute.getName().getValue() << "' on a function";
  return verifyValueAttribute(op, function.getArgumentTypes()[index], attribute);
}

LogicalResult MoeDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                      NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitError() << "expected '" << attribute.getName().getValue() << "' on a function";
  return verifyValueAttribute(op, function.getResultTypes()[index], attribute);
}
