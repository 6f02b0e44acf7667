//===- SpmdProgram.cpp - programs of ranks as text ------------------------===//
#include "Stages.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeLabels.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::checkSizes(func::FuncOp program) {
  auto isSmall = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return !shaped || !shaped.hasStaticShape() || !shaped.getElementType().isIntOrFloat() || getCheckedByteSize(shaped);
  };
  auto check = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (!isSmall(type))
        return op->emitError() << "expected tensors of at most " << kMaxTensorBytes << " bytes but got " << type;
    return success();
  };
  if (failed(check(program, program.getArgumentTypes())))
    return failure();
  WalkResult walk = program.getBody().walk([&](Operation *op) { return WalkResult(check(op, op->getResultTypes())); });
  return failure(walk.wasInterrupted());
}

LogicalResult mlir::moe::checkNames(func::FuncOp function, StringRef what, ArrayRef<StringRef> argumentRoles,
                                    ArrayRef<StringRef> resultRoles) {
  llvm::StringSet<> arguments, results;
  auto check = [&](DictionaryAttr attributes, llvm::StringSet<> &seen, ArrayRef<StringRef> roles) -> LogicalResult {
    auto name = attributes ? attributes.getAs<StringAttr>(kNameAttrName) : StringAttr();
    if (name && !seen.insert(name.getValue()).second)
      return function.emitError() << "expected each " << kNameAttrName << " once but got " << name << " twice";
    auto role = attributes ? attributes.getAs<StringAttr>(kRoleAttrName) : StringAttr();
    if (role && !llvm::is_contained(roles, role.getValue()))
      return function.emitError() << "expected " << kRoleAttrName << " in " << what << " to be "
                                  << llvm::join(roles, " or ") << " but got " << role;
    return success();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(function.getArgAttrDict(i), arguments, argumentRoles)))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(function.getResultAttrDict(i), results, resultRoles)))
      return failure();
  return success();
}

bool mlir::moe::isSpmdProgram(ModuleOp module) {
  // A model graph has neither.
  if (!module->hasAttr(kParallelAttrName) && !module.lookupSymbol(kRankName))
    return false;
  return module
      .walk([](Operation *op) {
        return isa<MoeSpmdOpInterface>(op) && !isa<MoePartitionOpInterface>(op) ? WalkResult::interrupt()
                                                                                : WalkResult::advance();
      })
      .wasInterrupted();
}

static LogicalResult checkFunction(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a body of one block";
  for (Operation &op : function.front().without_terminator())
    if (!isa<MoeSpmdOpInterface>(op))
      return op.emitOpError() << "expected an op of a rank program";
  StringRef roles[] = {kInputRole, kParameterRole, kStepRole,   kCotangentRole, kStateRole, kRateRole,
                       "output",   kLossRole,      kMetricRole, kGradientRole,  kUpdateRole};
  return failure(failed(checkNames(function, "a rank program", roles, roles)) || failed(checkSizes(function)));
}

static LogicalResult checkFunctions(ModuleOp module) {
  ParallelAttr one = ParallelAttr::getSingle(module.getContext());
  for (auto function : module.getOps<func::FuncOp>()) {
    bool isReference = function.getName() == kReferenceName;
    if (!isReference && function.getName() != kRankName)
      return function.emitError() << "expected @" << kRankName << " and at most a @" << kReferenceName
                                  << " beside it but got @" << function.getName();
    auto own = function->getAttrOfType<ParallelAttr>(kParallelAttrName);
    if (own != (isReference ? one : ParallelAttr()))
      return function.emitError() << "expected " << kParallelAttrName << " = " << one << " on @" << kReferenceName
                                  << ", and none on @" << kRankName << ", which has the module's";
    if (failed(checkFunction(function)))
      return failure();
  }
  if (!module.lookupSymbol(kRankName))
    return module.emitError() << "expected @" << kRankName << ", the rank program, beside @" << kReferenceName;
  return success();
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

/// The schedule that decides the order of launches. Without one they stay in the program's order, as in the baseline.
static FailureOr<ParsedSchedule> getSchedule(ModuleOp module) {
  StringRef key = module->hasAttr(kRequestedAttrName) ? kRequestedAttrName : plan::kScheduleAttrName;
  Attribute value = module->getAttr(key);
  if (!value)
    return ParsedSchedule();
  ScopedDiagnosticHandler quiet(
      module.getContext(), [&](Diagnostic &diagnostic) { return success(isa<UnknownLoc>(diagnostic.getLocation())); });
  auto name = dyn_cast<StringAttr>(value);
  FailureOr<ParsedSchedule> schedule = failure();
  if (name)
    schedule = parseSchedule(module.getContext(), name);
  if (failed(schedule))
    return module.emitError() << "expected " << key
                              << " to be a name that --schedule takes, or to be left out, but got " << value;
  return schedule;
}

static FailureOr<std::optional<OrderPolicy>> getOrder(ModuleOp module) {
  Attribute name = module->getAttr(plan::kOrderAttrName);
  if (!name)
    return std::optional<OrderPolicy>();
  std::optional<OrderPolicy> order;
  if (auto text = dyn_cast<StringAttr>(name))
    order = parseOrderPolicy(text);
  if (!order)
    return module.emitError() << "expected " << plan::kOrderAttrName
                              << " to be search, mpipemoe, fastermoe or program but got " << name;
  return order;
}

/// Infers the mode: a step with a backward has results that a model does not have.
static StringRef inferMode(func::FuncOp rank) {
  for (unsigned i = 0; i < rank.getNumResults(); ++i) {
    auto role = rank.getResultAttrOfType<StringAttr>(i, kRoleAttrName);
    if (role && role != "output" && role != kLossRole && role != kMetricRole)
      return "train";
  }
  return "forward";
}

FailureOr<SpmdHeader> mlir::moe::takeSpmdHeader(ModuleOp module, bool reference) {
  auto parallel = module->getAttrOfType<ParallelAttr>(kParallelAttrName);
  if (!parallel)
    return module.emitError() << "expected " << kParallelAttrName << " on the module, which gives the groups of ranks";
  if (parallel.getPp() > 1)
    return module.emitError()
           << "expected pp = 1 in a rank program but got pp = " << parallel.getPp()
           << ": the programs of stages cannot be checked, since the states of their values are only "
              "known before the division; compile the model instead";
  if (failed(checkFunctions(module)))
    return failure();
  if (Operation *unwanted = module.lookupSymbol(kReferenceName); unwanted && !reference)
    unwanted->erase();
  FailureOr<ParsedSchedule> schedule = getSchedule(module);
  FailureOr<std::optional<OrderPolicy>> order = getOrder(module);
  if (failed(schedule) || failed(order))
    return failure();
  if (!module->hasAttr(plan::kModeAttrName))
    module->setAttr(plan::kModeAttrName,
                    StringAttr::get(module.getContext(), inferMode(module.lookupSymbol<func::FuncOp>(kRankName))));
  takeLabels(module);
  return SpmdHeader{parallel, *schedule, *order};
}
