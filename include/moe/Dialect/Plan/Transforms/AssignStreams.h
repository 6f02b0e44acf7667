//===- AssignStreams.h - streams, and what they wait for --------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H
#define MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H

#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

namespace mlir::plan {

/// Transfers between two stages, one way, that are under way at once.
inline constexpr size_t kMostTransfers = 2;

/// Ranks of the program: of the `moe.parallel` of the function or what it is in, 0 where there is none.
int64_t getWorld(func::FuncOp program);

/// Puts each launch of `program` that has no stream on one, as plan-assign-streams says.
void assignStreams(func::FuncOp program);

/// Which launches a stream has to wait for, as launches are issued one after another. Vector clocks leave out what
/// other waits imply.
class WaitPlanner {
public:
  /// Launches have numbers below `launches`, streams below `streams`.
  WaitPlanner(unsigned launches, unsigned streams) : clocks(streams), issued(launches) {}

  /// Issues `launch` on `stream`; `before` were issued and have to be done. Returns those of them that `stream` has to
  /// wait for, the last issued first.
  SmallVector<unsigned, 2> issue(unsigned launch, unsigned stream, ArrayRef<unsigned> before);

  /// Waits that are there already.
  void record(int64_t event, unsigned stream) { clocks.record(event, stream); }
  void wait(int64_t event, unsigned stream) { clocks.wait(event, stream); }

private:
  struct Launch {
    unsigned stream = 0;
    int32_t position = 0;
    /// Among all.
    unsigned number = 0;
    /// What is done when the launch is.
    Clock done;
  };

  StreamClocks clocks;
  std::vector<Launch> issued;
  unsigned next = 0;
};

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H
