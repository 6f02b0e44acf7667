//===- WindowSearch.h - the order of a window's ops -------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_WINDOWSEARCH_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_WINDOWSEARCH_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <tuple>
#include <vector>

namespace mlir::moe {

/// An op of a window, and its time. Windows whose ops are equal have the same order.
struct TimedOp {
  double seconds = 0;
  uint32_t lane = 0; ///< ops of a lane run one after the other, in the order in which they are issued
  uint32_t list = 0;
  SmallVector<uint32_t, 4> needs;   ///< ops whose results it takes
  SmallVector<uint32_t, 1> follows; ///< ops that have to be issued before it
  bool receives = false;            ///< it takes what another stage sends
  double transfer = 0;              ///< seconds of sending its results to another stage

  bool operator<(const TimedOp &other) const {
    auto all = [](const TimedOp &op) {
      return std::tie(op.seconds, op.lane, op.list, op.needs, op.follows, op.receives, op.transfer);
    };
    return all(*this) < all(other);
  }
};

/// From one of several such windows to the next. Lanes bound it, and transfers: what a list sends has to be at a
/// neighbour, which is in a window alike, when that needs it.
double getPeriod(ArrayRef<TimedOp> ops, ArrayRef<uint32_t> order);

/// Indices of `ops` in an order of a short period. Lists follow each other in `ops`, and each stays in its order. Where
/// an op follows one without time, the one before that in its list, which takes some, stands for it.
std::vector<uint32_t> searchWindow(ArrayRef<TimedOp> ops);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_WINDOWSEARCH_H
