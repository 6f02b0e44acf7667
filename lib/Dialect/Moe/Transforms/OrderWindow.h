//===- OrderWindow.h - ops of units as one sequence -------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_ORDERWINDOW_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_ORDERWINDOW_H

#include "Stages.h"

#include "moe/Scheduling/Window.h"

#include <map>

namespace mlir::moe {

/// Ops of each unit, in program order. No backward is whole.
using UnitOps = std::map<PipelineUnit, SmallVector<Operation *>>;

/// Ops of a unit in program order. A whole backward has those of its gradients of weights.
SmallVector<Operation *> getOps(const UnitOps &units, PipelineUnit unit);

/// Orders the ops of windows, so that those of one Lane run beside those of the others. Windows of the same stages are
/// alike in all micro-batches, so each kind of window is ordered once.
class WindowOrderer {
public:
  /// Keeps a reference to `units`.
  WindowOrderer(const UnitOps &units, OpTimer timer) : units(units), timer(std::move(timer)) {}

  /// Order of the ops of a window. A search orders several units. The ops of each stay in program order, except for
  /// gradients of weights in a whole backward with exchanges, which may come later. They wait for at most four
  /// exchanges, so that their operands, of about one block, are free soon.
  SmallVector<Operation *> getOrder(const PipelineWindow &window);
  /// The period of the window (WindowProblem).
  double getSeconds(const PipelineWindow &window);

private:
  /// Ops that keep their order: those of a unit, or those of one kind in a whole backward.
  struct List {
    SmallVector<Operation *> ops;
    bool isPutOff = false; ///< gradients of weights of the backward in the list before
  };
  using Lists = SmallVector<List, 3>;
  /// Order by numbers that count the ops of all lists, one list after the other.
  struct Order {
    std::vector<uint32_t> ops;
    double seconds = 0;
  };
  /// The stages, and the numbers of ops. A first micro-batch has no sums.
  using Kind = std::pair<SmallVector<int64_t, 3>, SmallVector<size_t, 3>>;

  Lists getLists(const PipelineWindow &window) const;
  std::vector<TimedOp> describe(const Lists &lists);
  const Order &findOrder(const PipelineWindow &window, const Lists &lists);

  const UnitOps &units;
  OpTimer timer;
  std::map<Kind, const Order *> kinds;
  std::map<std::vector<TimedOp>, Order> orders; ///< equal for blocks that are alike
};

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_ORDERWINDOW_H
