//===- HappensBefore.h - the order of a rank program ------------*- C++ -*-===//
//
// Streams run side by side; a launch surely comes after another one only through program order on one stream and
// through plan.record / plan.wait between streams. Streams are few, so one vector clock per launch answers that in
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

/// For each stream, how many of its launches are done.
using Clock = SmallVector<int32_t, 4>;

/// What each stream knows to be done while a program is issued.
class StreamClocks {
public:
  explicit StreamClocks(unsigned streams) : clocks(streams, Clock(streams, 0)) {}

  const Clock &get(unsigned stream) const { return clocks[stream]; }
  /// Issues a launch on `stream`; returns its number there, from 1.
  int32_t launch(unsigned stream) { return ++clocks[stream][stream]; }
  void record(int64_t event, unsigned stream) { events[event] = clocks[stream]; }
  /// Returns false where `event` has not been recorded.
  bool wait(int64_t event, unsigned stream);
  /// `stream` waits for whatever `clock` says.
  void join(ArrayRef<int32_t> clock, unsigned stream);

private:
  SmallVector<Clock, 4> clocks;
  llvm::DenseMap<int64_t, Clock> events;
};

/// Which launches of a rank program come before which others in every interleaving of its streams. Launches are
/// numbered in the order of issue, so that one in a loop has a number for each iteration. Waits for events that nothing
/// recorded order nothing.
class HappensBefore {
public:
  /// `program` passes verifyRankProgram.
  explicit HappensBefore(func::FuncOp program, Iterations iterations = getRepresentative);

  /// By number.
  ArrayRef<LaunchOp> getLaunches() const { return launches; }
  int64_t getIteration(unsigned launch) const { return iterationOf[launch]; }
  /// The numbers of a launch, one for each iteration.
  ArrayRef<unsigned> getIndices(LaunchOp launch) const { return indices.find(launch)->second; }
  unsigned getNumStreams() const { return streams.size(); }
  StringRef getStreamName(unsigned stream) const { return streams[stream]; }
  unsigned getStream(unsigned launch) const { return streamOf[launch]; }
  /// The launch's number on its stream, from 1.
  int32_t getPosition(unsigned launch) const { return positions[launch]; }
  /// For each stream, how many of its launches are surely done when `launch` starts.
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
