//===- OrderWindow.cpp - ops of units as one sequence ---------------------===//
#include "OrderWindow.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <array>
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

namespace {
/// Ops in time: those of a lane one after the other, beside those of other lanes.
class OpClock {
public:
  explicit OpClock(OpTimer &timer) : timer(timer) {}

  double getBegin(Operation *op) const {
    double begin = free[getLane(op)];
    for (Value operand : op->getOperands())
      if (auto end = ends.find(operand.getDefiningOp()); operand.getDefiningOp() && end != ends.end())
        begin = std::max(begin, end->second);
    return begin;
  }
  void run(Operation *op) { free[getLane(op)] = ends[op] = getBegin(op) + timer.getSeconds(op); }
  double getSeconds() const { return *llvm::max_element(free); }

private:
  size_t getLane(Operation *op) const { return static_cast<size_t>(timer.getLane(op)); }

  OpTimer &timer;
  std::array<double, 3> free = {}; ///< by lane: since when
  llvm::DenseMap<Operation *, double> ends;
};

/// A list of a window, whose ops stay in their order.
struct OpenList {
  ArrayRef<Operation *> left;
  uint8_t number = 0;
};

/// Makes lists one. The op that can begin first goes first; of those that can begin at once, that of the first list.
class ListMerger {
public:
  ListMerger(SmallVector<OpenList> lists, OpTimer &timer) : lists(std::move(lists)), clock(timer) {
    for (const OpenList &list : this->lists)
      waiting.insert(list.left.begin(), list.left.end());
  }
  /// Each op of `putOff` comes before the fourth exchange of `others` that is behind it in the program.
  void limit(ArrayRef<Operation *> others, ArrayRef<Operation *> putOff, const OpTimer &timer);

  SmallVector<uint8_t> run();
  double getSeconds() const { return clock.getSeconds(); }

private:
  static constexpr size_t kMostExchanges = 4;

  bool canRun(Operation *op) const {
    auto isAwaited = [&](Operation *maker) { return maker && waiting.contains(maker); };
    return llvm::none_of(op->getOperands(), [&](Value operand) { return isAwaited(operand.getDefiningOp()); }) &&
           !isAwaited(before.lookup(op));
  }

  SmallVector<OpenList> lists;
  OpClock clock;
  llvm::DenseSet<Operation *> waiting;
  llvm::DenseMap<Operation *, Operation *> before; ///< the last op that has to come before an exchange
};
} // namespace

void ListMerger::limit(ArrayRef<Operation *> others, ArrayRef<Operation *> putOff, const OpTimer &timer) {
  auto exchanges =
      llvm::to_vector(llvm::make_filter_range(others, [&](Operation *op) { return isExchange(op, timer); }));
  for (Operation *op : putOff) {
    auto next = llvm::partition_point(exchanges, [&](Operation *exchange) { return exchange->isBeforeInBlock(op); });
    if (size_t last = next - exchanges.begin() + kMostExchanges - 1; last < exchanges.size())
      before[exchanges[last]] = op;
  }
}

SmallVector<uint8_t> ListMerger::run() {
  SmallVector<uint8_t> order;
  while (!waiting.empty()) {
    OpenList *best = nullptr;
    for (OpenList &list : lists)
      if (!list.left.empty() && canRun(list.left.front()) &&
          (!best || clock.getBegin(list.left.front()) < clock.getBegin(best->left.front())))
        best = &list;
    assert(best && "lists of a window wait for each other");
    Operation *op = best->left.front();
    clock.run(op);
    waiting.erase(op);
    order.push_back(best->number);
    best->left = best->left.drop_front();
  }
  return order;
}

WindowOrderer::Lists WindowOrderer::getLists(const PipelineWindow &window) const {
  Lists lists;
  for (const PipelineUnit &unit : window) {
    PipelineUnit own = unit;
    own.isWhole = false;
    lists.push_back({getOps(units, own)});
    if (!unit.isWhole)
      continue;
    // Without exchanges there is nothing to wait for.
    auto weights = getOps(units, {unit.microBatch, unit.stage, StageWork::weights});
    if (llvm::none_of(lists.back().ops, [&](Operation *op) { return isExchange(op, timer); }))
      lists.back().ops = getOps(units, unit);
    else if (!weights.empty())
      lists.push_back({std::move(weights), /*isPutOff=*/true});
  }
  return lists;
}

const WindowOrderer::Pattern &WindowOrderer::getPattern(const PipelineWindow &window, const Lists &lists) {
  Kind kind;
  for (const PipelineUnit &unit : window)
    kind.first.push_back(unit.stage);
  for (const List &list : lists)
    kind.second.push_back(list.ops.size());
  auto [it, isNew] = patterns.try_emplace(kind);
  if (!isNew)
    return it->second;
  std::optional<double> least;
  for (bool isSwapped : {false, true}) {
    SmallVector<OpenList> open;
    for (auto [number, list] : llvm::enumerate(lists))
      open.push_back({list.ops, static_cast<uint8_t>(number)});
    if (isSwapped && window.size() == 2)
      std::swap(open[0], open[1]);
    ListMerger merger(open, timer);
    for (auto [number, list] : llvm::enumerate(lists))
      if (list.isPutOff)
        merger.limit(lists[number - 1].ops, list.ops, timer);
    Pattern pattern = merger.run();
    if (!least || merger.getSeconds() < *least) {
      least = merger.getSeconds();
      it->second = std::move(pattern);
    }
  }
  return it->second;
}

SmallVector<Operation *> WindowOrderer::getOrder(const PipelineWindow &window) {
  Lists lists = getLists(window);
  if (lists.size() == 1)
    return lists.front().ops;
  SmallVector<size_t, 3> next(lists.size(), 0);
  SmallVector<Operation *> ops;
  for (uint8_t list : getPattern(window, lists))
    ops.push_back(lists[list].ops[next[list]++]);
  return ops;
}

double WindowOrderer::getSeconds(const PipelineWindow &window) {
  OpClock clock(timer);
  for (Operation *op : getOrder(window))
    clock.run(op);
  return clock.getSeconds();
}
