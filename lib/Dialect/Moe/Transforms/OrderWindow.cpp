//===- OrderWindow.cpp - ops of units as one sequence ---------------------===//
#include "OrderWindow.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <utility>

using namespace mlir;
using namespace mlir::moe;

SmallVector<Operation *> mlir::moe::getOps(const UnitOps &units, PipelineUnit unit) {
  bool isWhole = std::exchange(unit.isWhole, false);
  auto find = [&](StageWork work) {
    auto found = units.find({unit.microBatch, unit.stage, work});
    return found == units.end() ? ArrayRef<Operation *>() : ArrayRef(found->second);
  };
  ArrayRef<Operation *> own = find(unit.work), weights = isWhole ? find(StageWork::weights) : ArrayRef<Operation *>();
  SmallVector<Operation *> ops;
  std::merge(own.begin(), own.end(), weights.begin(), weights.end(), std::back_inserter(ops),
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

static bool isExchange(Operation *op, const OpTimer &timer) { return timer.getLane(op) != Lane::Computation; }

/// Limit for the exchanges that gradients of weights wait for.
static constexpr size_t kMostExchanges = 4;

WindowOrderer::Lists WindowOrderer::getLists(const PipelineWindow &window) const {
  Lists lists;
  for (const PipelineUnit &unit : window) {
    PipelineUnit own = unit;
    own.isWhole = false;
    lists.push_back({getOps(units, own)});
    if (!unit.isWhole)
      continue;
    // Gradients of weights are only postponed beside exchanges.
    auto weights = getOps(units, {unit.microBatch, unit.stage, StageWork::weights});
    if (llvm::none_of(lists.back().ops, [&](Operation *op) { return isExchange(op, timer); }))
      lists.back().ops = getOps(units, unit);
    else if (!weights.empty())
      lists.push_back({std::move(weights), /*isPutOff=*/true});
  }
  return lists;
}

/// Whether `op` of a stage and `other`, which may be null, belong to different stages.
static bool isOfOtherStage(Operation *op, Operation *other) {
  std::optional<PipelineUnit> unit = getPipelineUnit(op), its = other ? getPipelineUnit(other) : std::nullopt;
  return unit && its && unit->stage != its->stage;
}

std::vector<TimedOp> WindowOrderer::describe(const Lists &lists) {
  llvm::DenseMap<Operation *, uint32_t> numbers;
  for (const List &list : lists)
    for (Operation *op : list.ops)
      numbers.try_emplace(op, numbers.size());
  std::vector<TimedOp> window;
  for (auto [number, list] : llvm::enumerate(lists))
    for (Operation *op : list.ops) {
      TimedOp &one = window.emplace_back();
      one.seconds = timer.getSeconds(op);
      one.lane = static_cast<uint32_t>(timer.getLane(op));
      one.list = number;
      for (Value operand : op->getOperands()) {
        Operation *maker = operand.getDefiningOp();
        if (auto need = numbers.find(maker); maker && need != numbers.end())
          one.needs.push_back(need->second);
        one.receives |= isOfOtherStage(op, maker);
      }
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return isOfOtherStage(op, user); }))
          one.transfer += timer.getTransferSeconds(getByteSize(result.getType()));
    }
  for (auto [number, list] : llvm::enumerate(lists)) {
    if (!list.isPutOff)
      continue;
    auto exchanges = llvm::to_vector(
        llvm::make_filter_range(lists[number - 1].ops, [&](Operation *op) { return isExchange(op, timer); }));
    for (Operation *op : list.ops) {
      auto next = llvm::partition_point(exchanges, [&](Operation *exchange) { return exchange->isBeforeInBlock(op); });
      if (size_t last = next - exchanges.begin() + kMostExchanges - 1; last < exchanges.size())
        window[numbers.at(exchanges[last])].follows.push_back(numbers.at(op));
    }
  }
  return window;
}

const WindowOrderer::Order &WindowOrderer::findOrder(const PipelineWindow &window, const Lists &lists) {
  Kind kind;
  for (const PipelineUnit &unit : window)
    kind.first.push_back(unit.stage);
  for (const List &list : lists)
    kind.second.push_back(list.ops.size());
  auto [it, isNew] = kinds.try_emplace(kind, nullptr);
  if (!isNew)
    return *it->second;
  std::vector<TimedOp> described = describe(lists);
  auto [order, isOther] = orders.try_emplace(described);
  if (isOther) {
    // The map keeps the ops.
    WindowProblem problem{order->first};
    order->second.ops = searchWindow(problem);
    order->second.seconds = problem.getPeriod(order->second.ops);
  }
  it->second = &order->second;
  return order->second;
}

SmallVector<Operation *> WindowOrderer::getOrder(const PipelineWindow &window) {
  Lists lists = getLists(window);
  SmallVector<Operation *> ops, ordered;
  for (const List &list : lists)
    llvm::append_range(ops, list.ops);
  if (lists.size() == 1)
    return ops;
  for (uint32_t op : findOrder(window, lists).ops)
    ordered.push_back(ops[op]);
  return ordered;
}

double WindowOrderer::getSeconds(const PipelineWindow &window) {
  Lists lists = getLists(window);
  return lists.empty() ? 0 : findOrder(window, lists).seconds;
}
