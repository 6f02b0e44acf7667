//===- VerifySpmd.cpp - reject programs whose SPMD states do not fit ------===//
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEVERIFYSPMD
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Reports the first operand of `op` whose state is not the one required.
static LogicalResult verifyOperands(Operation &op, const SpmdAnalysis &analysis) {
  const SpmdAxes &axes = analysis.getAxes();
  SmallVector<AxisSet> required = analysis.getRequired(&op);
  for (auto [operand, wanted] : llvm::zip(op.getOpOperands(), required)) {
    AxisSet state = analysis.getState(operand.get());
    if (state == wanted)
      continue;
    InFlightDiagnostic error = op.emitOpError()
                               << "expected operand #" << operand.getOperandNumber() << " to vary over "
                               << axes.describe(wanted) << " but it varies over " << axes.describe(state);
    if (op.hasTrait<OpTrait::IsTerminator>() && !(state - wanted).empty())
      error << "; a sum or gather over " << axes.describe(state - wanted) << " is missing";
    else if (!(wanted - state).empty())
      error << "; it is replicated over " << axes.describe(wanted - state)
            << ", so that its copies would count more than once without moe.to_varying";
    if (Operation *definition = operand.get().getDefiningOp())
      error.attachNote(definition->getLoc()) << "the operand is defined here";
    return error;
  }
  return success();
}

/// Checks the rules of all ops, also of those whose values do not vary.
static LogicalResult verifyRules(func::FuncOp function) {
  return failure(function.walk([](MoeSpmdOpInterface op) { return WalkResult(verifyIndexRule(op, op.getIndexRule())); })
                     .wasInterrupted());
}

namespace {

/// Follows the placements of values along one axis.
class PlacementChecker {
public:
  PlacementChecker(func::FuncOp function, const SpmdAnalysis &analysis, AxisSet axis)
      : function(function), analysis(analysis), axis(axis) {}

  LogicalResult run();

private:
  bool varies(Value value) const { return !(analysis.getState(value) & axis).empty(); }
  Placement getPlacement(Attribute layout) const;
  FailureOr<Placement> resolve(OpResult result, Placement placement);
  LogicalResult visit(Operation &op);
  LogicalResult visitReturn(Operation &op);

  func::FuncOp function;
  const SpmdAnalysis &analysis;
  AxisSet axis;
  llvm::DenseMap<Value, Placement> placements;
  /// Whether a value that all members share consists of values side by side that are no shards, such as the baseline's
  /// duplicated tokens after its gather over esp. From there on a slice may be a copy, a shard, or (in the backward) a
  /// term.
  bool joins = false;
};

} // namespace

Placement PlacementChecker::getPlacement(Attribute attribute) const {
  ParallelAttr parallel = getParallel(function);
  if (auto layout = dyn_cast_or_null<LayoutAttr>(attribute))
    for (size_t dim = 0; dim < layout.getDims().size(); ++dim)
      for (StringRef name : layout.getGroups(dim))
        if (!(*analysis.getAxes().getAxes(parallel.getGroup(name)) & axis).empty())
          return Placement::shard(dim);
  return {};
}

/// Placement that an op states for its result, with the knowledge of the program.
FailureOr<Placement> PlacementChecker::resolve(OpResult result, Placement placement) {
  joins |= placement.is(Placement::Kind::Joined);
  if (varies(result)) {
    if (placement.is(Placement::Kind::Part) && !joins)
      return Placement::shard(placement.dim);
    bool unknown = placement.is(Placement::Kind::Part) || placement.is(Placement::Kind::Replicated);
    return unknown ? Placement{Placement::Kind::Unknown} : placement;
  }
  if (placement.is(Placement::Kind::Partial) && !joins)
    return result.getOwner()->emitOpError() << "expected whole values but operand #0 holds partial sums; a sum over "
                                            << analysis.getAxes().describe(axis) << " is missing";
  return Placement();
}

LogicalResult PlacementChecker::visit(Operation &op) {
  SmallVector<Placement> operands =
      llvm::map_to_vector(op.getOperands(), [&](Value v) { return placements.lookup(v); });
  SmallVector<Placement> results(op.getNumResults());
  auto vary = [&](Value value) { return varies(value); };
  if (llvm::any_of(op.getResults(), vary) || llvm::any_of(op.getOperands(), vary)) {
    results.clear();
    if (failed(cast<MoeSpmdOpInterface>(op).inferPlacements({&op, analysis.getAxes(), axis, operands}, results)))
      return failure();
  }
  for (auto [result, placement] : llvm::zip_equal(op.getResults(), results)) {
    FailureOr<Placement> resolved = resolve(result, placement);
    if (failed(resolved))
      return failure();
    placements[result] = *resolved;
  }
  return success();
}

/// Checks that no result is a term of a sum if its layout calls it a shard.
LogicalResult PlacementChecker::visitReturn(Operation &op) {
  for (OpOperand &operand : op.getOpOperands())
    if (placements.lookup(operand.get()).is(Placement::Kind::Partial))
      return op.emitOpError() << "expected whole values but operand #" << operand.getOperandNumber()
                              << " holds partial sums; a sum over " << analysis.getAxes().describe(axis)
                              << " is missing";
  return success();
}

LogicalResult PlacementChecker::run() {
  for (BlockArgument argument : function.getArguments())
    placements[argument] = getPlacement(function.getArgAttr(argument.getArgNumber(), kLayoutAttrName));
  for (Operation &op : function.front())
    if (failed(op.hasTrait<OpTrait::IsTerminator>() ? visitReturn(op) : visit(op)))
      return failure();
  return success();
}

/// Reports the first sum that is missing, or that counts a value more than once, along each axis.
static LogicalResult verifyPlacements(func::FuncOp function, const SpmdAnalysis &analysis) {
  LogicalResult result = success();
  for (AxisSet axis : analysis.getAxes().getEach())
    if (failed(PlacementChecker(function, analysis, axis).run()))
      result = failure();
  return result;
}

/// Checks that members of a group that meet in a further pass of a layer run it equally often: the number does not vary
/// over the group.
static LogicalResult verifyPasses(func::FuncOp function, const SpmdAnalysis &analysis) {
  llvm::DenseMap<Attribute, AxisSet> varying;
  for (auto window : function.getOps<WindowOp>())
    if (Attribute pass = window->getAttr(kPassAttrName))
      varying[pass] = varying[pass] | analysis.getState(window.getLeft());
  for (Operation &op : function.front()) {
    auto kernel = dyn_cast<MoeKernelOpInterface>(op);
    auto pass = op.getAttrOfType<StringAttr>(kPassAttrName);
    if (!pass || !kernel || !kernel.isCollective())
      continue;
    AxisSet met = analysis.getAxes().getCovering(kernel.getKernelGroup()) & varying.lookup(pass);
    if (!met.empty())
      return op.emitOpError() << "hang: expected the members of '" << kernel.getKernelGroup().getName()
                              << "' to run pass '" << pass.getValue() << "' equally often, but the number of passes "
                              << "varies over " << analysis.getAxes().describe(met);
  }
  return success();
}

namespace {
struct MoeVerifySpmd : moe::impl::MoeVerifySpmdBase<MoeVerifySpmd> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(verifyRules(getOperation())))
      return signalPassFailure();
    FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(getOperation());
    if (failed(analysis))
      return signalPassFailure();
    bool fits = true;
    for (Operation &op : getOperation().front())
      fits &= succeeded(verifyOperands(op, *analysis));
    if (!fits || failed(verifyPlacements(getOperation(), *analysis)) || failed(verifyPasses(getOperation(), *analysis)))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
