//===- EndOfStep.cpp - what a step does once, behind micro-batches --------===//
#include "EndOfStep.h"

#include "ExpertPath.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::moe;

EndOfStep::EndOfStep(func::FuncOp function, ArrayRef<Operation *> others, OpTimer timer, int64_t devices)
    : timer(std::move(timer)), devices(devices) {
  for (Operation *op : others)
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp(); maker && (getPipelineUnit(maker) || ends.contains(maker))) {
        ends.insert(op);
        await(op, maker);
      }
  for (Operation *op : llvm::reverse(others))
    if (ends.contains(op) && (this->timer.getLane(op) != Lane::Computation ||
                              llvm::any_of(op->getUsers(), [&](Operation *user) { return urgent.contains(user); })))
      urgent.insert(op);
  // A value in the memory of an argument comes after all readers of the argument.
  llvm::StringMap<BlockArgument> named = getNamedArguments(function);
  for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
    auto updates = function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), kUpdatesAttrName);
    Operation *maker = result.get().getDefiningOp();
    if (!updates || !ends.contains(maker))
      continue;
    awaitReaders(maker, named.lookup(updates));
  }
}

/// Waits for readers of `argument`, of its views, and of values computed from it before all micro-batches.
void EndOfStep::awaitReaders(Operation *op, Value argument) {
  llvm::DenseSet<Operation *> seen = {op};
  SmallVector<Value> open = {argument};
  while (!open.empty())
    for (Operation *reader : open.pop_back_val().getUsers()) {
      if (!seen.insert(reader).second)
        continue;
      bool hasPlace = getPipelineUnit(reader) || ends.contains(reader);
      if (hasPlace)
        await(op, reader);
      if (!hasPlace || isAlias(reader))
        llvm::append_range(open, reader->getResults());
    }
}

void EndOfStep::await(Operation *op, Operation *needed) {
  SmallVector<Operation *, 1> &others = waiting[needed];
  if (llvm::is_contained(others, op))
    return;
  others.push_back(op);
  ++missing[op];
}

void EndOfStep::finish(Operation *op, Device &device, double end) {
  auto others = waiting.find(op);
  if (others == waiting.end())
    return;
  for (Operation *other : others->second)
    if (--missing[other] == 0 && urgent.contains(other))
      device.ready.push_back({other, end});
}

void EndOfStep::place(Operation *op, int64_t number) {
  Device &device = devices[number];
  Lane lane = timer.getLane(op);
  device.used.insert(lane);
  // Time does not matter before an op waits.
  if (!device.ready.empty() && lane == Lane::Computation)
    device.computed += timer.getSeconds(op);
  finish(op, device, device.computed);
}

SmallVector<Operation *> EndOfStep::take(int64_t number) {
  Device &device = devices[number];
  SmallVector<Operation *> placed;
  for (size_t i = 0; i < device.ready.size(); ++i) {
    auto [op, since] = device.ready[i];
    Lane lane = timer.getLane(op);
    bool isInTheWay = lane != Lane::Computation && device.used.contains(lane);
    if (since > device.computed || isInTheWay)
      continue;
    device.ready.erase(device.ready.begin() + i--);
    placed.push_back(op);
    double seconds = timer.getSeconds(op);
    if (lane == Lane::Computation) {
      device.computed += seconds;
      finish(op, device, device.computed);
    } else {
      device.exchanged = std::max(device.exchanged, device.computed) + seconds;
      // Other exchanges may be in its way.
      finish(op, device, device.exchanged + seconds);
    }
  }
  return placed;
}
