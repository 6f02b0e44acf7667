//===- Window.h - the order of a window's ops -------------------*- C++ -*-===//
#ifndef MOE_SCHEDULING_WINDOW_H
#define MOE_SCHEDULING_WINDOW_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace mlir::moe {

/// An op of a window. Windows with equal ops have the same order.
struct TimedOp {
  double seconds = 0;
  uint32_t lane = 0; ///< ops of a lane run one after the other, in the order in which they are issued
  uint32_t list = 0;
  SmallVector<uint32_t, 4> needs;   ///< ops whose results it takes
  SmallVector<uint32_t, 1> follows; ///< ops that have to be issued before it
  bool receives = false;            ///< whether it takes results of another stage
  double transfer = 0;              ///< seconds of sending its results to another stage

  std::partial_ordering operator<=>(const TimedOp &) const = default;
};

/// Orders the ops of a window, such that the time from a window to the next like it is short. Lists follow each other
/// in `ops`, and each list stays in its order.
struct WindowProblem {
  ArrayRef<TimedOp> ops;

  /// The mistake in the input, or an empty string.
  std::string check() const;
  /// The mistake in a solution, or an empty string. An op that takes no time may be issued after an op that follows it.
  std::string verify(ArrayRef<uint32_t> order) const;
  /// Time from one of several such windows to the next. It is bounded by lanes, and by transfers: what a list sends has
  /// to be at a neighbour, which works on an equal window, when the neighbour needs it.
  double getPeriod(ArrayRef<uint32_t> order) const;
};

/// An order of a short period, as indices of the ops. Expects a problem without a mistake. If an op follows one that
/// takes no time, it follows the last op before that in the same list that takes some.
std::vector<uint32_t> searchWindow(const WindowProblem &problem);

} // namespace mlir::moe

#endif // MOE_SCHEDULING_WINDOW_H
