//===- RepeatMicroBatches.cpp - more micro-batches like the second --------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEREPEATMICROBATCHES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
class Repeater {
public:
  Repeater(func::FuncOp function, int64_t count)
      : function(function), terminator(function.front().getTerminator()), count(count) {}

  LogicalResult run();

private:
  static constexpr int64_t kTemplates = 3, kNone = -1;

  int64_t getMicroBatch(Value value) const;
  LogicalResult collect();
  LogicalResult match();
  LogicalResult match(Operation *op, Operation *next);
  LogicalResult checkOthers();
  void place(Operation *op, int64_t microBatch);
  void repeat(int64_t microBatch, IRMapping &before);
  void finish(IRMapping &before);
  InFlightDiagnostic fail(Operation *op) {
    return op->emitError("expected micro-batches that are alike, but this op ");
  }

  func::FuncOp function;
  Operation *terminator;
  int64_t count, total = 0;
  /// Ops of each micro-batch, in program order, and ops of no micro-batch.
  SmallVector<Operation *> templates[kTemplates], others;
  llvm::DenseMap<Operation *, int64_t> microBatchOf;
  /// Values of the last micro-batch by the matching values of the second.
  llvm::DenseMap<Value, Value> like;
  /// Values that the second micro-batch passes to the last, by the matching values that the first passes to the second.
  llvm::DenseMap<Value, Value> handedOn;
};
} // namespace

int64_t Repeater::getMicroBatch(Value value) const {
  auto it = value.getDefiningOp() ? microBatchOf.find(value.getDefiningOp()) : microBatchOf.end();
  return it == microBatchOf.end() ? kNone : it->second;
}

LogicalResult Repeater::collect() {
  for (Operation &op : function.front().without_terminator()) {
    auto place = op.getAttrOfType<ChunkAttr>(kMicroBatchAttrName);
    if (!place) {
      others.push_back(&op);
      continue;
    }
    total = place.getChunks();
    if (place.getIndex() >= kTemplates)
      return fail(&op) << "is of micro-batch " << place.getIndex() << ", and " << kTemplates << " are expected";
    templates[place.getIndex()].push_back(&op);
    microBatchOf[&op] = place.getIndex();
  }
  if (templates[1].empty() || templates[1].size() != templates[2].size() || count < kTemplates || count > total)
    return function.emitError() << "expected three micro-batches, the last two of which have equally many ops, and a "
                                   "number of micro-batches from 3 to "
                                << total << " but got " << count;
  return success();
}

/// Attributes that are equal for ops that differ only in their micro-batch.
static DictionaryAttr getKind(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase(kMicroBatchAttrName);
  if (auto input = dyn_cast<MicroBatchOp>(op))
    attributes.erase(input.getIndexAttrName());
  return attributes.getDictionary(op->getContext());
}

LogicalResult Repeater::match(Operation *op, Operation *next) {
  if (op->getName() != next->getName() || getKind(op) != getKind(next) ||
      op->getResultTypes() != next->getResultTypes() || op->getNumOperands() != next->getNumOperands())
    return failure();
  for (auto [own, its] : llvm::zip(op->getOperands(), next->getOperands())) {
    bool isSame = own == its && getMicroBatch(own) < 1;
    bool isLike = getMicroBatch(own) == 1 && like.lookup(own) == its;
    bool isHandedOn = getMicroBatch(own) == 0 && getMicroBatch(its) == 1;
    if (!isSame && !isLike && !(isHandedOn && handedOn.try_emplace(own, its).first->second == its))
      return failure();
  }
  for (auto [own, its] : llvm::zip(op->getResults(), next->getResults()))
    like[own] = its;
  return success();
}

LogicalResult Repeater::match() {
  for (auto [op, next] : llvm::zip(templates[1], templates[2]))
    if (failed(match(op, next)))
      return fail(op) << "has no like in the next one";
  for (Operation *op : templates[0])
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return getMicroBatch(operand) > 0; }))
      return fail(op) << "of the first one takes a value of a later one";
  return success();
}

/// Checks that other ops take values of the last micro-batch alone, which exists for any number of micro-batches.
LogicalResult Repeater::checkOthers() {
  for (Operation *op : others)
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return llvm::is_contained({0, 1}, getMicroBatch(operand)); }))
      return fail(op) << "takes a value that is not of the last one";
  if (llvm::any_of(terminator->getOperands(),
                   [&](Value result) { return llvm::is_contained({0, 1}, getMicroBatch(result)); }))
    return fail(terminator) << "returns a value that is not of the last one";
  return success();
}

void Repeater::place(Operation *op, int64_t microBatch) {
  op->setAttr(kMicroBatchAttrName, ChunkAttr::get(op->getContext(), microBatch, total));
  if (auto input = dyn_cast<MicroBatchOp>(op))
    input.setIndex(microBatch);
}

/// Repeats the ops for one micro-batch. `before` maps values of the second micro-batch to those of the previous one,
/// and then to those of this one.
void Repeater::repeat(int64_t microBatch, IRMapping &before) {
  OpBuilder builder(terminator);
  IRMapping own;
  for (auto [first, second] : handedOn)
    own.map(first, before.lookup(second));
  for (Operation *op : templates[1])
    place(builder.clone(*op, own), microBatch);
  before = std::move(own);
}

/// Lets the last micro-batch follow the one before it.
void Repeater::finish(IRMapping &before) {
  for (Operation *op : templates[2]) {
    for (OpOperand &operand : op->getOpOperands())
      if (getMicroBatch(operand.get()) == 1)
        operand.set(before.lookup(operand.get()));
    place(op, count - 1);
    op->moveBefore(terminator);
  }
}

LogicalResult Repeater::run() {
  if (failed(collect()) || failed(match()) || failed(checkOthers()))
    return failure();
  // Ops that no micro-batch changes come first, and ops that need the last micro-batch come last.
  llvm::DenseSet<Operation *> late;
  for (Operation *op : others)
    if (llvm::any_of(op->getOperands(), [&](Value operand) {
          return getMicroBatch(operand) != kNone || late.contains(operand.getDefiningOp());
        }))
      late.insert(op);
  for (Operation *op : others)
    if (!late.contains(op))
      op->moveBefore(terminator);
  for (Operation *op : llvm::concat<Operation *>(templates[0], templates[1]))
    op->moveBefore(terminator);
  IRMapping before;
  for (auto [own, its] : like)
    before.map(own, own);
  for (int64_t microBatch = 2; microBatch < count - 1; ++microBatch)
    repeat(microBatch, before);
  finish(before);
  for (Operation *op : others)
    if (late.contains(op))
      op->moveBefore(terminator);
  return success();
}

namespace {
struct MoeRepeatMicroBatches : moe::impl::MoeRepeatMicroBatchesBase<MoeRepeatMicroBatches> {
  using Base::Base;

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock()) {
      getOperation().emitError() << "expected a body of one block";
      return signalPassFailure();
    }
    if (failed(Repeater(getOperation(), microBatches).run()))
      signalPassFailure();
  }
};
} // namespace
