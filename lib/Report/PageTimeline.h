//===- PageTimeline.h - what a page shows of a step's launches --*- C++ -*-===//
//
// A page holds a limited number of launches. For a larger step it has the launches of one period, a micro-batch in the
// middle of the step, and for the whole step the use of each stream in equal intervals.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_REPORT_PAGETIMELINE_H
#define MOE_LIB_REPORT_PAGETIMELINE_H

#include "moe/Report/SimOutput.h"

#include <cmath>

namespace mlir::moe {

/// A time in which a stream of a rank is busy.
struct PageSpan {
  uint32_t launch = 0; ///< number in the rank's program
  double begin = 0, end = 0;
  const SimTime *time = nullptr; ///< null if it was measured
};

/// A rank: its predicted and, if given, its measured launches, in order of their begins.
struct PageRow {
  int64_t rank = 0;
  uint32_t simulated = 0; ///< into SimResult::ranks
  std::string name;
  std::vector<PageSpan> predicted = {}, measured = {};
  /// True if it has lanes, one for each stream. The others are drawn in blocks of many ranks.
  bool hasLanes = true;
};

struct PageTimeline {
  std::vector<PageRow> rows;
  /// Rows to show by themselves among many: most computation, median, least, most of the critical path.
  std::vector<size_t> special;
  double tick = 1; ///< seconds; unit of times
  double end = 0;  ///< seconds: end of the step, or of the measured step, which counts from its first begin
  /// Time range of the launches that are shown, in seconds: the whole step or one period.
  double from = 0, to = 0;
  bool isPeriod = false;   ///< whether the range is one micro-batch; otherwise it is as long as room allows
  size_t numIntervals = 0; ///< number of intervals of 0..end; 0 if all launches are shown

  int64_t getTicks(double seconds) const { return std::llround(seconds / tick); }
  bool isShown(double begin, double spanEnd) const { return numIntervals == 0 || (spanEnd > from && begin < to); }
};

PageTimeline makePageTimeline(const SimResult &result, const SimReport &report, llvm::ArrayRef<MeasuredOp> measured);

/// Kind of work of each stream of `program`, in program order, that takes most of its time on any rank.
std::vector<Resource> getStreamKinds(const SimProgram &program, llvm::ArrayRef<PageRow> rows, const SimResult &result);

//===----------------------------------------------------------------------===//
// The pipeline: the work of each device over time, by units: a micro-batch at a stage, forward, backward or weight
// gradients. A piece is the device's computation of a unit until it waits, or goes on with another unit of the same
// direction.
//===----------------------------------------------------------------------===//

/// Kinds of work, in the order of timeline.html. Whole is a micro-batch of a program without stages.
enum class PieceWork : uint8_t { Forward, Backward, Weights, Whole, Other };

struct PagePiece {
  int32_t microBatch = -1, stage = -1; ///< -1: none, as for the optimizer
  PieceWork work = PieceWork::Other;
  /// True if launches of a backward compute weight gradients that the program has as work of their own.
  bool hasWeights = false;
  /// True if the device computes something of the other direction in between, as in a window.
  bool isWindow = false;
  double begin = 0, end = 0, compute = 0; ///< compute: seconds with a launch of its own under way

  bool isBackward() const { return work == PieceWork::Backward || work == PieceWork::Weights; }
};

/// The device of one rank of a program, for all of its ranks.
struct PageDevice {
  std::string name; ///< name of the rank
  std::vector<PagePiece> pieces;
  /// Begins and ends of times with an exchange between ranks of the same stage, and without computation.
  std::vector<std::pair<double, double>> exposed;
};

struct PagePipeline {
  std::vector<PageDevice> devices; ///< the first ones; none for a step without stages and micro-batches
  size_t numDevices = 0;
  int64_t numMicroBatches = 0;
  double to = 0; ///< seconds; later begins are left out
};

PagePipeline makePagePipeline(const SimResult &result, const PageTimeline &timeline);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_PAGETIMELINE_H
