//===- HappensBefore.h - the order of a rank program ------------*- C++ -*-===//
//
// Streams run side by side. A launch surely comes after another one only through program order on one stream and
// through plan.record and plan.wait between streams. Streams are few, so one vector clock per launch answers this in
// constant time.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_HAPPENSBEFORE_H
#define MOE_DIALECT_PLAN_TRANSFORMS_HAPPENSBEFORE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// Number of launches that are done, by stream.
using Clock = SmallVector<int32_t, 4>;

/// Follows what each stream knows to be done while a program is issued.
class StreamClocks {
public:
  explicit StreamClocks(unsigned streams) : clocks(streams, Clock(streams, 0)) {}

  const Clock &get(unsigned stream) const { return clocks[stream]; }
  /// Issues a launch on `stream` and returns its number there, from 1.
  int32_t launch(unsigned stream) { return ++clocks[stream][stream]; }
  void record(int64_t event, unsigned stream) { events[event] = clocks[stream]; }
  /// Returns false if `event` has not been recorded.
  bool wait(int64_t event, unsigned stream);
  /// Lets `stream` wait for the launches of `clock`.
  void join(ArrayRef<int32_t> clock, unsigned stream);

private:
  SmallVector<Clock, 4> clocks;
  llvm::DenseMap<int64_t, Clock> events;
};

/// Tells which launches of a rank program come before which others in every interleaving of its streams. Launches are
/// numbered in the order of issue, so a launch in a loop has a number for each iteration. Waits for events without a
/// record order no launches.
class HappensBefore {
public:
  /// Expects a program that passes verifyRankProgram.
  explicit HappensBefore(func::FuncOp program, Iterations iterations = getRepresentative);

  /// Launches by number.
  ArrayRef<LaunchOp> getLaunches() const { return launches; }
  int64_t getIteration(unsigned launch) const { return iterationOf[launch]; }
  /// Numbers of a launch, one for each iteration.
  ArrayRef<unsigned> getIndices(LaunchOp launch) const { return indices.find(launch)->second; }
  unsigned getNumStreams() const { return streams.size(); }
  StringRef getStreamName(unsigned stream) const { return streams[stream]; }
  unsigned getStream(unsigned launch) const { return streamOf[launch]; }
  /// The launch's number on its stream, from 1.
  int32_t getPosition(unsigned launch) const { return positions[launch]; }
  /// Number of launches that are surely done when `launch` starts, by stream.
  ArrayRef<int32_t> getClock(unsigned launch) const {
    return ArrayRef<int32_t>(clocks).slice(launch * streams.size(), streams.size());
  }
  /// Whether launch `first` is surely done when launch `second` starts.
  bool isBefore(unsigned first, unsigned second) const { return getClock(second)[streamOf[first]] >= positions[first]; }

private:
  SmallVector<StringRef> streams;
  std::vector<LaunchOp> launches;
  std::vector<int64_t> iterationOf;
  llvm::DenseMap<Operation *, SmallVector<unsigned, 1>> indices;
  std::vector<unsigned> streamOf;
  std::vector<int32_t> positions;
  std::vector<int32_t> clocks;
};

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_HAPPENSBEFORE_H
