//===- AssignStreams.h - streams, and what they wait for --------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H
#define MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H

#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

namespace mlir::plan {

/// Limit for the transfers between two stages that run at once in one direction.
inline constexpr size_t kMostTransfers = 2;

/// Puts each launch of `program` that has no stream on one, as plan-assign-streams describes.
void assignStreams(func::FuncOp program);

/// Finds the launches that a stream has to wait for, as launches are issued one after another. Vector clocks leave out
/// launches that other waits imply.
class WaitPlanner {
public:
  /// Launches have numbers below `launches`, streams below `streams`.
  WaitPlanner(unsigned launches, unsigned streams) : clocks(streams), issued(launches) {}

  /// Issues `launch` on `stream` after the launches `before`, which were issued. Returns those of them that `stream`
  /// has to wait for, the last issued first.
  SmallVector<unsigned, 2> issue(unsigned launch, unsigned stream, ArrayRef<unsigned> before);

  /// Follows records and waits that the program already has.
  void record(int64_t event, unsigned stream) { clocks.record(event, stream); }
  void wait(int64_t event, unsigned stream) { clocks.wait(event, stream); }

private:
  struct Launch {
    unsigned stream = 0;
    int32_t position = 0;
    /// Number among all launches.
    unsigned number = 0;
    /// Clock of the launches that are done when this one is.
    Clock done;
  };

  StreamClocks clocks;
  std::vector<Launch> issued;
  unsigned next = 0;
};

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_ASSIGNSTREAMS_H
